"""``fedgrain predict`` and ``fedgrain evaluate``: use a trained model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import EXCHANGE_FORMATS, PREDICTION_FORMATS, RULES
from fedgrain.errors import DataError
from fedgrain.files import written_whole
from fedgrain.terminal.answer_options import add_answer_options, possible_nodes, wanted_of
from fedgrain.terminal.arguments import add_json, add_net_weights, add_trust, print_json
from fedgrain.terminal.images_to_score import Scored, images_to_score

if TYPE_CHECKING:
    from fedgrain.models.predict_files import PredictedFile
    from fedgrain.models.trained_model import TrainedModel

SOME_FAILED = 3  # exit code: some images could not be read, the others were predicted
_THUMBNAIL = 128  # pixels of a side
_FEW = 10  # images that need no progress bar


def add_to(commands: Any) -> None:
    """Add both commands."""
    _add_predict(commands)
    _add_evaluate(commands)


def _add_predict(commands: Any) -> None:
    parser = commands.add_parser(
        "predict",
        help="classify images, as far down the taxonomy as the model is sure",
        description="Print each image's path through the taxonomy with a probability per level. "
        "An image that cannot be read is listed with the reason, and the exit code is "
        f"{SOME_FAILED}.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument(
        "images",
        nargs="+",
        metavar="IMAGE",
        help="an image, a folder, a pattern in quotes ('photos/**/*.jpg'), a manifest (.csv with a "
        "column path), a list (.txt, a path per line), or - for a list on standard input",
    )
    add_answer_options(parser)
    endings = ", ".join(PREDICTION_FORMATS.values())
    parser.add_argument(
        "--out",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=f"write to a file instead; its ending is the format: {endings} (a page of "
        "thumbnails); may be given several times",
    )
    parser.add_argument(
        "--format",
        choices=(*PREDICTION_FORMATS, *EXCHANGE_FORMATS),
        help="what to print (default: text); camtrap-dp, label-studio and speciesnet: also what to "
        "write to the --out with their ending, .csv or .json",
    )
    parser.add_argument(
        "--ranks",
        metavar="NAMES",
        help="for speciesnet: the ranks of the tree's depths below the root, such as "
        "class,order,family,genus,species",
    )
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="short for --format json"
    )
    parser.add_argument(
        "--allow-links", action="store_true", help="follow links that lead out of a folder"
    )
    add_net_weights(parser)
    add_trust(parser)
    parser.set_defaults(run=_run_predict)


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="score a trained model on a data set",
        description="Score a finished run's model: on its own test images, or on another data set "
        "over the same classes.",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--dataset", metavar="NAME", help="another data set than the run's")
    parser.add_argument("--data-root", metavar="DIR", help="where its files are")
    parser.add_argument(
        "--manifest",
        type=Path,
        metavar="CSV",
        help="your own images, with labels of the model's taxonomy (path,label[,client,split])",
    )
    parser.add_argument(
        "--split",
        help="which images (default: test; of a manifest that gives no splits, all)",
    )
    parser.add_argument(
        "--rule",
        choices=RULES,
        default="leaf",
        help="which node is predicted: the likeliest leaf (default), the most specific one with "
        "P > 0.5 or P >= --threshold, or the one with the highest expected HF",
    )
    parser.add_argument("--threshold", type=float, metavar="P", help="of the rule threshold")
    parser.add_argument(
        "--guarantee",
        type=float,
        metavar="SHARE",
        help="instead of a rule: how many answers with this guarantee hold the truth, in all and "
        "per depth, class and site; and the calibration error per depth",
    )
    parser.add_argument("--sets", action="store_true", help="with --guarantee: of sets of classes")
    parser.add_argument(
        "--only",
        type=Path,
        metavar="FILE",
        help="with --guarantee: the classes that are possible, as in predict; in a .csv with a "
        "column client every site has its own list",
    )
    add_net_weights(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_run_evaluate)


def _run_predict(args: argparse.Namespace) -> int:
    """Print or write a row per image; return the exit code."""
    formats: dict[Path | None, str]
    formats = {path: _format_of(path, args.format) for path in args.out}
    written = args.format in EXCHANGE_FORMATS and args.format in formats.values()
    if (args.format and not written) or not args.out:
        formats[None] = args.format or "text"
    from fedgrain.folders.image_paths import find_images
    from fedgrain.models.predict_files import Asked, predict_files

    asked = Asked(
        thumbnail=_THUMBNAIL if "html" in formats.values() else 0,
        net_weights=args.net_weights,
        wanted=wanted_of(args),
    )
    images = find_images(args.images, allow_links=args.allow_links)
    if "camtrap-dp" in formats.values():
        from fedgrain.models.camtrap_dp import check_media

        check_media(image.path for image in images)
    found = predict_files(args.folder, images, asked, trust_code=args.trust_code)
    rows = _Counted(found, len(images))
    _write(rows, formats, args)
    if rows.failed:
        print(f"{rows.failed} of {len(images)} images could not be read", file=sys.stderr)
    return SOME_FAILED if rows.failed else 0


def _write(
    rows: Iterable[PredictedFile], formats: dict[Path | None, str], args: argparse.Namespace
) -> None:
    """Write all files or none; one that cannot be written is found before anything is predicted."""
    with ExitStack() as whole:
        asides = {path: whole.enter_context(written_whole(path)) for path in formats if path}
        everything = rows if len(formats) == 1 else list(rows)
        for path, form in formats.items():
            pieces = _pieces(everything, form, args.folder, args.ranks)
            if path is None:
                sys.stdout.writelines(pieces)
                continue
            with asides[path].open("w", encoding="utf-8", newline="") as file:
                file.writelines(pieces)
    for path in asides:
        print(f"wrote {path}", file=sys.stderr)


def _format_of(path: Path, asked: str | None) -> str:
    """Return the format that was asked for, if the file has its ending, or else its ending's."""
    entry = EXCHANGE_FORMATS.get(asked or "")
    if entry is not None and path.name.lower().endswith(entry.ending) and not path.is_dir():
        return entry.name
    for name, ending in PREDICTION_FORMATS.items():
        if path.name.lower().endswith(ending) and not path.is_dir():
            return name
    raise DataError(
        f"{path}: cannot be written; give a file that ends in "
        f"{', '.join(PREDICTION_FORMATS.values())}"
    )


def _pieces(
    rows: Iterable[PredictedFile], form: str, run: Path, ranks: str | None
) -> Iterator[str]:
    if form in EXCHANGE_FORMATS:
        from fedgrain.models.exchange import predicted_by
        from fedgrain.plugins import load_callable

        entry = EXCHANGE_FORMATS[form]
        write = load_callable(entry.home, "format", DataError)
        made: Iterator[str] = write(rows, predicted_by(run, ranks, entry.ranks))
        return made
    if form == "html":
        from fedgrain.pages.predictions_page import page_of_predictions

        return page_of_predictions(rows, run)
    from fedgrain.models.prediction_formats import FORMATS

    return FORMATS[form](rows)


class _Counted:
    """Rows that pass by, with a progress bar on standard error; counts those that failed."""

    def __init__(self, rows: Iterator[PredictedFile], total: int) -> None:
        self._rows, self._total, self.failed = rows, total, 0

    def __iter__(self) -> Iterator[PredictedFile]:
        from tqdm import tqdm

        terminal = sys.stderr.isatty() and self._total > _FEW
        for row in tqdm(
            self._rows, "predicting", self._total, unit=" images", disable=not terminal
        ):
            self.failed += row.prediction is None
            yield row


def _run_evaluate(args: argparse.Namespace) -> None:
    """Print the scores."""
    from fedgrain.arithmetic import one_thread
    from fedgrain.models.model_folder import load
    from fedgrain.runs.evaluate import evaluate

    model = load(args.folder, trust_code=args.trust_code, net_weights=args.net_weights)
    with one_thread():
        scored = images_to_score(args, model)
        if args.guarantee is not None:
            _print_trust(args, model, scored)
            return
        if args.only is not None:
            raise DataError("--only needs --guarantee, such as --guarantee 0.9")
        scores = evaluate(model, scored.data, scored.split, args.rule, args.threshold)
    if args.json:
        print_json(scores)
        return
    print(f"{scores['samples']} images of {scored.spoken}, rule {args.rule}")
    print(f"HF {scores['hf']:.4f}   HR {scores['hr']:.4f}   HP {scores['hp']:.4f}")
    micro = (f"{name.upper()} {scores[f'micro_{name}']:.4f}" for name in ("hf", "hr", "hp"))
    print(f"micro-averaged  {'   '.join(micro)}")
    if scores["accuracy"] is not None:
        print(f"leaf accuracy  {scores['accuracy']:.4f}")
    depths = ", ".join(f"{value:.4f}" for value in scores["accuracy_per_depth"])
    print(f"accuracy per depth  {depths}")


def _print_trust(args: argparse.Namespace, model: TrainedModel, scored: Scored) -> None:
    """Print whether a guarantee is kept."""
    from fedgrain.runs.coverage import by_sites_of, trust_lines, trust_of

    only = None
    if args.only is not None:
        only = by_sites_of(scored.data, possible_nodes(args.only, args.folder), args.only)
    sets, share = args.sets, args.guarantee
    found = trust_of(model, scored.data, scored.split, share, sets=sets, only=only)
    if args.json:
        print_json(found)
        return
    for line in trust_lines(found):
        print(line)
