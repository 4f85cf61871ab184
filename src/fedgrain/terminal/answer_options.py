"""Options of ``fedgrain predict`` that say how far an answer goes, and what is possible."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedgrain.models.answers import Question

_KNOWN_SHARE = 0.95


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    how_far = parser.add_mutually_exclusive_group()
    how_far.add_argument(
        "--confidence",
        type=float,
        metavar="P",
        help="stop at the most specific class with at least this probability (default: a leaf)",
    )
    how_far.add_argument(
        "--guarantee",
        type=float,
        metavar="SHARE",
        help="stop at the most specific class that holds the truth in at least this share of "
        "images like those of the calibration",
    )
    how_far.add_argument(
        "--expected-hf",
        action="store_true",
        help="stop where the expected HF is highest: balances being right and being specific",
    )
    parser.add_argument(
        "--sets", action="store_true", help="with --guarantee: a set of classes, often smaller"
    )
    add_only(parser)
    parser.add_argument(
        "--level",
        metavar="DEPTH",
        help="roll answers up to this depth of the full taxonomy, or to a rank of --ranks",
    )
    parser.add_argument(
        "--something-else",
        type=float,
        nargs="?",
        const=_KNOWN_SHARE,
        metavar="SHARE",
        help="say 'not in this taxonomy' of images that look like none of its classes; this share "
        f"of images that do belong is still answered (default: {_KNOWN_SHARE})",
    )


def wanted_of(args: argparse.Namespace) -> Question:
    """Return what the options ask for."""
    from fedgrain.models.answers import Question, check_wanted

    rule = "threshold" if args.confidence is not None else "leaf"
    wanted = Question(
        "expected-hf" if args.expected_hf else rule,
        args.confidence,
        args.guarantee,
        args.sets,
        possible_here(args),
        _level(args.level, args.ranks),
        args.something_else,
    )
    check_wanted(wanted)
    return wanted


def _level(text: str | None, ranks: str | None) -> int | None:
    if text is None:
        return None
    named = [rank.strip().casefold() for rank in (ranks or "").split(",")]
    if text.casefold() in named:
        return named.index(text.casefold()) + 1
    if text.isdecimal():
        return int(text)
    raise DataError(
        f"the level {text!r} is no depth, and no rank of --ranks; give a number, or name the ranks"
    )


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is possible."""
    parser.add_argument(
        "--only",
        type=Path,
        metavar="FILE",
        help="the classes that are possible here, by name or id, leaves or above: one a line, or "
        "the column label of a .csv",
    )
    parser.add_argument(
        "--site",
        metavar="NAME",
        help="with --only: the site whose list it is, in a .csv with a column client",
    )


def possible_here(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Return what is possible here, or at the site that is named; None without a list."""
    if args.only is None:
        if args.site is not None:
            raise DataError("--site names whose list it is; also give the list: --only FILE")
        return None
    lists = possible_nodes(args.only, args.folder)
    if args.site is not None and args.site not in lists:
        sites = ", ".join(site for site in lists if site) or "no site"
        raise DataError(f"{args.only}: there is no list of {args.site!r}; it names {sites}")
    chosen = lists.values() if args.site is None else (lists[args.site],)
    return tuple(dict.fromkeys(node for nodes in chosen for node in nodes))


def possible_nodes(path: Path, run: Path) -> dict[str, tuple[str, ...]]:
    """Read the classes that are possible, by site ("" for all); the model says their names."""
    from fedgrain.checked_json import read_checked_json
    from fedgrain.files import read_text
    from fedgrain.models.answers import nodes_named
    from fedgrain.models.model_folder import description_of
    from fedgrain.taxonomy import from_json

    place = description_of(run)
    tree = from_json(read_checked_json(place)["full_taxonomy"], f"{place}, full taxonomy")
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such list of classes") from None
    listed = _column(path, text) if path.suffix.lower() == ".csv" else _lines(path, text)
    if not listed:
        raise DataError(f"{path}: the list names no class; name at least one")
    sites = dict.fromkeys(site for site, _, _ in listed)
    return {
        own: nodes_named([(where, text) for site, where, text in listed if site == own], tree)
        for own in sites
    }


def _lines(path: Path, text: str) -> list[tuple[str, str, str]]:
    return [
        ("", f"{path}, line {number}", line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]


def _column(path: Path, text: str) -> list[tuple[str, str, str]]:
    from fedgrain.parsing import csv_rows

    def check_header(header: Sequence[str]) -> None:
        if list(header).count("label") != 1:
            raise DataError(
                f"{path}, line 1: the header {','.join(header)!r} has no column label; name the "
                "column of the classes so"
            )

    rows: Any = csv_rows(text, path, DataError, check_header)
    return [(row.get("client") or "", where, row["label"]) for where, row in rows if row["label"]]
