"""``fedgrain import``: from the formats users have to a folder of images, labels and a tree."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedgrain.catalogue import IMPORTERS
from fedgrain.terminal.arguments import add_json, print_json

WORDS_LEFT = 3  # exit code: words without a node are left to fill in


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    formats = "; ".join(f"{entry.name}: {entry.reads}" for entry in IMPORTERS.values())
    parser = commands.add_parser(
        "import",
        help="read labels and trees in other formats",
        description="Read sources of a format and write taxonomy.csv, images.csv and an account "
        f"of what was read, left out and why. Formats: {formats}; or your own reader as "
        "module:callable. If words have no node, only a list of them is written, with the nearest "
        f"nodes, to fill in and give as --names; the exit code is then {WORDS_LEFT}.",
    )
    parser.add_argument("format", metavar="FORMAT", help=f"{', '.join(IMPORTERS)}, or yours")
    parser.add_argument("sources", type=Path, nargs="+", metavar="SOURCE", help="files or folders")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder to write"
    )
    parser.add_argument(
        "--images", type=Path, metavar="DIR",
        help="where the paths of images start (default: the folder of the source)",
    )  # fmt: skip
    parser.add_argument(
        "--taxonomy", type=Path, metavar="CSV",
        help="labels mean the nodes of this tree, by id, name or synonym, instead of the source's",
    )  # fmt: skip
    parser.add_argument(
        "--names", type=Path, metavar="CSV",
        help="what a site's own words mean: columns word,node; - leaves a word's images out",
    )  # fmt: skip
    parser.add_argument(
        "--ranks", metavar="A,B,C", help="table: the columns of the ranks, from the top down"
    )
    parser.add_argument(
        "--column", action="append", default=[], metavar="WHAT=NAME",
        help="which column holds what: image, label, site, annotator, split, synonyms",
    )  # fmt: skip
    parser.add_argument("--root", default="", metavar="NAME", help="a class above all others")
    parser.add_argument("--copy", action="store_true", help="copy the images into the folder")
    parser.add_argument(
        "--skip-unknown", action="store_true", help="leave images out whose word has no node"
    )
    parser.add_argument(
        "--allow-links", action="store_true", help="follow links to images outside their folder"
    )
    parser.add_argument("--replace", action="store_true", help="write over an earlier import")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Import, and print the account; return the exit code."""
    from fedgrain.importers import ImportOptions, ReadOptions, import_data

    ranks = tuple(name.strip() for name in (args.ranks or "").split(",") if name.strip())
    options = ImportOptions(
        read=ReadOptions(args.images, _columns(args.column), ranks),
        taxonomy=args.taxonomy,
        names=args.names,
        root=args.root,
        copy=args.copy,
        allow_links=args.allow_links,
        skip_unknown=args.skip_unknown,
        replace=args.replace,
    )
    account = import_data(args.format, args.sources, args.out, options)
    if args.json:
        print_json(account.as_json())
    else:
        print("\n".join(account.lines()))
    if account.words_file is None:
        print(f"wrote {args.out}", file=sys.stderr)
        return 0
    print(
        f"{len(account.unknown)} words have no node, so no images were written; fill in the column "
        f"node of {account.words_file} and add --names {account.words_file}, or --skip-unknown",
        file=sys.stderr,
    )
    return WORDS_LEFT


def _columns(given: list[str]) -> dict[str, str]:
    from fedgrain.errors import DataError

    found: dict[str, str] = {}
    for text in given:
        what, sign, name = text.partition("=")
        if not sign or not name.strip():
            raise DataError(f"--column {text}: write what the column holds, = and its name")
        found[what.strip()] = name.strip()
    return found
