"""``fedgrain table``: the tables of a study."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fedgrain.catalogue import TABLE_FORMATS
from fedgrain.terminal.arguments import add_trust


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "table",
        help="print the tables of a study",
        description="Print HR, HP and HF of a study's finished runs per method and alpha: mean and "
        "95%% interval over seeds, best bold, second underlined; with fewer than 3 seeds the "
        "values themselves.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of a study")
    parser.add_argument("--format", choices=TABLE_FORMATS, default="text", help="default: text")
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="short for --format json"
    )
    parser.add_argument("--paper", action="store_true", help="add the paper's figures")
    parser.add_argument(
        "--paired",
        metavar="METHOD",
        help="add the mean difference in HF from this method over common seeds, with its interval",
    )
    parser.add_argument(
        "--gains",
        action="store_true",
        help="add the relative gains over the baselines, the heads under the paper's rule",
    )
    parser.add_argument(
        "--hierarchy", action="store_true", help="add the properties of the class hierarchies"
    )
    parser.add_argument(
        "--figures", action="store_true", help="draw the figures again, into DIR/figures"
    )
    add_trust(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the tables."""
    from fedgrain.tables.alone import alone_rows, alone_tables
    from fedgrain.tables.collect import read_results
    from fedgrain.tables.site_tables import site_tables
    from fedgrain.tables.study_tables import gains_tables, hierarchy_table, score_tables
    from fedgrain.tables.table_formats import format_tables

    results = read_results(args.folder)
    tables = score_tables(results, paper=args.paper, paired=args.paired)
    tables += site_tables(results) + alone_tables(alone_rows(results))
    if args.gains:
        tables += gains_tables(results, paper=args.paper)
    if args.hierarchy:
        tables.append(hierarchy_table(args.folder, results))
    print(format_tables(tables, args.format), end="")
    if args.figures:
        from fedgrain.report.study_results import draw

        for path in draw(args.folder, results, args.trust_code):
            print(f"wrote {path}", file=sys.stderr)
    for left in results.left():
        print(left, file=sys.stderr)
