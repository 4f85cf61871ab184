"""``fedgrain predict`` and ``fedgrain evaluate``: use a trained model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedgrain.catalogue import RULES, dataset
from fedgrain.cli.arguments import add_json, add_trust, print_json
from fedgrain.text import one_line

_LONGEST_PATH = 1000  # characters of a path that is printed


def add_to(commands: Any) -> None:
    """Add both commands."""
    parser = commands.add_parser(
        "predict",
        help="classify images, as far down the taxonomy as the model is sure",
        description="Print each image's path through the taxonomy with a probability per level.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE")
    how_far = parser.add_mutually_exclusive_group()
    how_far.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="stop at the most specific class with at least this probability (default: a leaf)",
    )
    how_far.add_argument(
        "--expected-hf",
        action="store_true",
        help="stop where the expected HF is highest: balances being right and being specific",
    )
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_run_predict)

    parser = commands.add_parser(
        "evaluate",
        help="score a trained model on a data set",
        description="Score a finished run's model: on its own test images, or on another data set "
        "over the same classes.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--dataset", metavar="NAME", help="another data set than the run's")
    parser.add_argument("--data-root", metavar="DIR", help="where its files are")
    parser.add_argument("--split", default="test", help="which images (default: test)")
    parser.add_argument(
        "--rule",
        choices=RULES,
        default="leaf",
        help="which node is predicted: the likeliest leaf (default), the most specific one with "
        "P > 0.5 or P >= --threshold, or the one with the highest expected HF",
    )
    parser.add_argument("--threshold", type=float, metavar="P", help="of the rule threshold")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_run_evaluate)


def _run_predict(args: argparse.Namespace) -> None:
    """Print a path per image."""
    from fedgrain.models.model_folder import load

    model = load(args.folder, trust_code=args.trust_code)
    rule: dict[str, Any] = {"rule": "expected-hf" if args.expected_hf else "leaf"}
    if args.confidence is not None:
        rule = {"rule": "threshold", "threshold": args.confidence}
    predictions = model.predict(model.read_images(args.images), **rule)
    if args.json:
        answer = [
            {
                "image": str(path),
                "path": [
                    {"id": node, "name": name, "probability": probability}
                    for node, name, probability in zip(
                        found.ids, found.names, found.probabilities, strict=True
                    )
                ],
            }
            for path, found in zip(args.images, predictions, strict=True)
        ]
        print_json({"predictions": answer})
        return
    for path, found in zip(args.images, predictions, strict=True):
        names = [one_line(name) for name in found.names]
        levels = zip(names[1:], found.probabilities[1:], strict=True)
        steps = " > ".join(f"{name} {probability:.2f}" for name, probability in levels)
        print(f"{one_line(path, _LONGEST_PATH)}: {steps or names[0]}")


def _run_evaluate(args: argparse.Namespace) -> None:
    """Print the scores."""
    from dataclasses import replace

    from fedgrain.errors import RunError
    from fedgrain.models.model_folder import load
    from fedgrain.plugins import check_trust
    from fedgrain.preparation.config import PLACES
    from fedgrain.preparation.prepare import load_images
    from fedgrain.runs.evaluate import evaluate
    from fedgrain.arithmetic import one_thread
    from fedgrain.runs.run_folder import RunFolder

    model = load(args.folder, trust_code=args.trust_code)
    config = RunFolder(args.folder).read_config()
    if args.dataset:
        reading = ("image_size", "images_per_class", "sample_seed", "max_unreadable")
        others: dict[str, Any] = dict.fromkeys((*PLACES, *reading))  # of its own data set
        config = replace(config, dataset=args.dataset, **others)
    else:
        named = {"dataset": config.dataset}
        check_trust(named, args.folder / "config.toml", args.trust_code, RunError)
    if args.data_root:
        config = replace(config, data_root=args.data_root)
    if dataset(config.dataset).resizable and config.image_size is None:
        config = replace(config, image_size=model.image_shape[0])
    with one_thread():
        scores = evaluate(model, load_images(config), args.split, args.rule, args.threshold)
    if args.json:
        print_json(scores)
        return
    print(f"{scores['samples']} images of {config.dataset}, split {args.split}, rule {args.rule}")
    print(f"HF {scores['hf']:.4f}   HR {scores['hr']:.4f}   HP {scores['hp']:.4f}")
    micro = (f"{name.upper()} {scores[f'micro_{name}']:.4f}" for name in ("hf", "hr", "hp"))
    print(f"micro-averaged  {'   '.join(micro)}")
    if scores["accuracy"] is not None:
        print(f"leaf accuracy  {scores['accuracy']:.4f}")
    depths = ", ".join(f"{value:.4f}" for value in scores["accuracy_per_depth"])
    print(f"accuracy per depth  {depths}")
