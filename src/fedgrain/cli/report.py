"""``fedgrain report``: an HTML page about a run or a study."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from fedgrain.terminal.arguments import add_json, add_trust, print_json


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="write an HTML page about a run or a study",
        description="Write one self-contained report.html from the folder of a run or a study: the "
        "main finding, sortable tables, interactive plots, a zoomable taxonomy, what each client "
        "knows, the worst branches with example images, and the commands to reproduce it. It "
        "opens from disk and needs no network.",
        epilog="Example: fedgrain report studies/demo",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of a run or a study")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write (default: report.html in DIR)"
    )
    parser.add_argument(
        "--no-images",
        action="store_true",
        help="leave out the example images, for reports that will be committed or published",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="of a run that goes on: write it again after every round, until the run ends",
    )
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run)


_LOOK_SECONDS = 2.0


def run(args: argparse.Namespace) -> None:
    """Write the report and say where; with ``--follow``, whenever the run has a new round."""
    from fedgrain.runs.run_folder import RunFolder

    place, seen = RunFolder(args.folder), None
    while args.follow and not place.result.exists():
        newest = place.metrics.stat().st_mtime_ns if place.metrics.exists() else None
        if newest != seen:
            seen = newest
            _write(args, quiet=True)
        time.sleep(_LOOK_SECONDS)
    _write(args)


def _write(args: argparse.Namespace, *, quiet: bool = False) -> None:
    from tqdm import tqdm

    from fedgrain.files import write_text
    from fedgrain.report.html import page_of, render

    with tqdm(desc="looking at images", unit="image", delay=1, file=sys.stderr) as bar:

        def watch(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        page = page_of(
            args.folder, images=not args.no_images, trust_code=args.trust_code, watch=watch
        )
    path = args.out or args.folder / "report.html"
    write_text(path, render(page))
    if quiet:
        print(f"{page.sentence.partition('. ')[0]}. report: {path}", file=sys.stderr)
        return
    if args.json:
        told = {"headline": page.headline, "sentence": page.sentence, "notes": list(page.notes)}
        print_json({"report": str(path), **told})
        return
    if page.headline:
        print(page.headline)
    print(page.sentence)
    for note in page.notes:
        print(note)
    print(f"report: {path}")
