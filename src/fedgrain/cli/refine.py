"""``fedgrain refine`` and ``fedgrain review``: coarse labels made finer, and checked by people."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.cli.predict import SOME_FAILED
from fedgrain.terminal.answer_options import add_only, possible_here
from fedgrain.terminal.arguments import add_json, add_net_weights, add_trust, print_json
from fedgrain.text import counted, one_line

if TYPE_CHECKING:
    from fedgrain.refinement.refine import Refined

_SHOWN = 3  # files that cannot be read


def add_to(commands: Any) -> None:
    """Add both commands."""
    _add_refine(commands)
    _add_review(commands)


def _add_refine(commands: Any) -> None:
    parser = commands.add_parser(
        "refine",
        help="propose finer labels for images whose labels are coarse",
        description="For every training image of a manifest whose label is coarse, write the finer "
        "label that the model proposes below it, with its probability. The given label is never "
        "contradicted, and every row keeps it, so that all can be undone. Nothing is sent away.",
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="RUN", help="the folder of a finished run"
    )
    parser.add_argument("--manifest", type=Path, metavar="CSV", help="the images and their labels")
    parser.add_argument(
        "--undo",
        type=Path,
        metavar="CSV",
        help="instead: write a refined or reviewed manifest as it was given first",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="CSV", help="the manifest to write"
    )
    parser.add_argument(
        "--accept",
        type=float,
        metavar="P",
        help="take the most specific label that is at least so probable (above 0.5); the other "
        "labels stay (default: take none)",
    )
    parser.add_argument(
        "--supervision",
        choices=("marginal", "projection", "learned"),
        help="what a coarse label leaves open: all that is below it, what its writer cannot name, "
        "or what its writer seems to mean by it (default: as the run was trained)",
    )
    parser.add_argument(
        "--knowledge",
        type=Path,
        metavar="FILE",
        help="what the sites know, for projection (default: the run's, or inferred from labels)",
    )
    parser.add_argument(
        "--allow-links", action="store_true", help="follow links that lead out of the folder"
    )
    add_only(parser)
    add_net_weights(parser)
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=_run_refine)


def _run_refine(args: argparse.Namespace) -> int:
    """Write the refined manifest, or undo one; return the exit code."""
    if args.undo is not None:
        return _undo(args)
    if args.folder is None or args.manifest is None:
        args.parser.error("give RUN and --manifest, or --undo")
    from fedgrain.models.predict_files import ModelPlace
    from fedgrain.refinement.refine import Refining, refine_manifest

    reading, knowledge = _reading(args)
    place = ModelPlace(str(args.folder), args.trust_code, args.net_weights)
    asked = Refining(place, args.accept, reading, knowledge, args.allow_links, possible_here(args))
    found = refine_manifest(args.manifest, args.out, asked, watch=_bar)
    if args.json:
        print_json({**_numbers(found), "supervision": reading, "out": str(args.out)})
    else:
        _tell(found, args, reading)
    return SOME_FAILED if found.problems else 0


def _undo(args: argparse.Namespace) -> int:
    from fedgrain.refinement.label_origins import undo

    if args.folder is not None or args.manifest is not None or args.accept is not None:
        args.parser.error("--undo needs nothing but --out")
    rows, changed = undo(args.undo, args.out)
    if args.json:
        print_json({"rows": rows, "undone": changed, "out": str(args.out)})
    else:
        print(f"{counted(changed, 'label')} of {counted(rows, 'row')} as given again: {args.out}")
    return 0


def _reading(args: argparse.Namespace) -> tuple[str, Path | None]:
    """Return how labels are read, as asked or as in training, and the file of knowledge."""
    from fedgrain.runs.run_folder import RunFolder

    place = RunFolder(args.folder)
    config = place.read_config() if place.config.exists() else None
    reading, file = args.supervision, args.knowledge
    if reading is None and file is not None:
        reading = "projection"
    if reading is None and config is not None and config.real_labels:
        reading = config.supervision
    if file is None and config is not None and config.knowledge_file is not None:
        file = config.knowledge_file if config.knowledge_file.exists() else None
    reading = reading if reading in ("projection", "learned") else "marginal"
    return reading, file if reading == "projection" else None


def _bar(rows: Iterator[Any], count: int) -> Iterator[Any]:
    from tqdm import tqdm

    shown = sys.stderr.isatty() and count > 10
    return iter(tqdm(rows, "refining", count, unit=" images", disable=not shown))


def _numbers(found: Refined) -> dict[str, Any]:
    problems = [{"image": image, "problem": problem} for image, problem in found.problems]
    return {
        "rows": found.rows, "coarse": found.coarse, "proposed": found.proposed,
        "taken": found.taken, "taken_leaves": found.leaves, "guaranteed": found.guaranteed,
        "unreadable": problems,
    }  # fmt: skip


_READ_AS = {
    "marginal": "anything below a label is possible",
    "projection": "a label means what its writer cannot name",
    "learned": "a label means what its writer seems to mean by it",
}


def _tell(found: Refined, args: argparse.Namespace, reading: str) -> None:
    print(f"{counted(found.rows, 'row')}, {counted(found.coarse, 'coarse label')} in training")
    print(f"{reading}: {_READ_AS[reading]}")
    if args.accept is None:
        print(f"{counted(found.proposed, 'proposal')}, none taken (--accept 0.95 takes the sure)")
    else:
        print(
            f"{counted(found.taken, 'label')} made finer with a probability of at least "
            f"{args.accept:g}, {found.leaves:,} of them down to a leaf; "
            f"{found.proposed - found.taken:,} stay as they are"
        )
    if not found.guaranteed:
        print("nothing is guaranteed: the model was trained without images to calibrate it on")
    for image, problem in found.problems[:_SHOWN]:
        print(f"{one_line(image)}: {one_line(problem)}", file=sys.stderr)
    if len(found.problems) > _SHOWN:
        print(f"and {len(found.problems) - _SHOWN} more could not be read", file=sys.stderr)
    print(f"wrote {args.out}; look through it with: {_review_command(args)}")


def _review_command(args: argparse.Namespace) -> str:
    """Return the command that comes next; only the name is for the user to fill in."""
    from fedgrain.folders.folder import TREE

    words = ["fedgrain", "review", str(args.out), "--annotator", "NAME"]
    if not (args.out.parent / TREE).exists():
        words += ["--taxonomy", str(args.folder)]
    return shlex.join(words + ["--allow-links"] * args.allow_links)


def _add_review(commands: Any) -> None:
    parser = commands.add_parser(
        "review",
        help="look through proposed labels on a page of this machine",
        description="Open a page of images whose labels are coarse, the most useful first, with "
        "what the model proposes: accept it, pick another name, or be unsure. Every answer is "
        "saved at once, and the same command goes on where you stopped. Only this machine serves "
        "and sees the page.",
    )
    parser.add_argument(
        "manifest", type=Path, metavar="CSV", help="what fedgrain refine wrote, or any manifest"
    )
    parser.add_argument(
        "--annotator", required=True, metavar="NAME", help="your name, as in the manifest"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="CSV",
        help="the manifest with the answers (default: beside the other, -reviewed)",
    )
    parser.add_argument(
        "--taxonomy",
        type=Path,
        metavar="FILE",
        help="the tree: a CSV file, or the folder of a run (default: taxonomy.csv beside the "
        "manifest)",
    )
    parser.add_argument(
        "--taken", action="store_true", help="also look at labels that the model wrote"
    )
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument(
        "--no-browser", action="store_true", help="only print the address, open nothing"
    )
    parser.add_argument(
        "--allow-links", action="store_true", help="follow links that lead out of the folder"
    )
    add_json(parser)
    parser.set_defaults(run=_run_review)


def _run_review(args: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C, then say what was done."""
    from fedgrain.refinement.review import review_server
    from fedgrain.refinement.review_session import Reviewing

    out = args.out or args.manifest.with_name(f"{args.manifest.stem}-reviewed.csv")
    asked = Reviewing(args.manifest, out, args.annotator, args.taken, args.allow_links)
    with review_server(asked, args.taxonomy, args.port) as server:
        print(f"review at {server.url} (Ctrl-C ends it)", file=sys.stderr, flush=True)
        if not args.no_browser:
            import webbrowser

            webbrowser.open(server.url)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        numbers = server.session.numbers()
    if args.json:
        print_json({**numbers, "out": str(out)})
        return
    print(
        f"{numbers['done']:,} of {counted(numbers['images'], 'image')} reviewed, "
        f"{counted(numbers['finer'], 'label')} made finer, {numbers['leaves']:,} full labels"
    )
    print(f"wrote {out}")
