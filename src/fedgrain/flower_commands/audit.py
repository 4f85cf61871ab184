"""``fedgrain flower audit`` and ``allow``: the record of a site or server, and a person's yes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedgrain.terminal.arguments import add_json, print_json


def add_to(parts: Any) -> None:
    """Add both commands."""
    parser = parts.add_parser(
        "audit",
        help="verify a record, and say what left the site",
        description="Verify the record of a site or of the server, and answer on one page: what "
        "left, ever? An altered, cut or reordered record is an error (exit code 2).",
        epilog="Example: fedgrain flower audit museum-record.jsonl --html left.html",
    )
    parser.add_argument("record", type=Path, metavar="RECORD", help="record.jsonl")
    parser.add_argument(
        "--head", metavar="NUMBER:HASH", help="a head you noted earlier; the record must have it"
    )
    parser.add_argument(
        "--peer",
        type=Path,
        metavar="RECORD",
        help="the record of the other side, to compare every message and head with",
    )
    parser.add_argument("--entries", action="store_true", help="print every entry, as CSV")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every entry to a CSV file")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the page as HTML")
    add_json(parser)
    parser.set_defaults(run=audit)
    parser = parts.add_parser(
        "allow",
        help="allow a run or an app that the policy asks about",
        description="Allow what [ask] of a policy leaves to a person: a run, or an app.",
        epilog="Example: fedgrain flower allow site.toml --run 1234567890",
    )
    parser.add_argument("policy", type=Path, metavar="POLICY", help="the site's site.toml")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--run", dest="run_number", metavar="NUMBER", help="as the site's log says")
    which.add_argument("--app", metavar="SHA256", help="as fedgrain flower check prints it")
    parser.set_defaults(run=allow)


def audit(args: argparse.Namespace) -> None:
    """Verify, and print the page."""
    from fedgrain.files import write_text
    from fedgrain.records.audit import as_csv, as_object, read_audit
    from fedgrain.records.audit_page import as_html, as_text
    from fedgrain.records.chain import Head, entries_of

    head = None if args.head is None else Head.of(args.head)
    found = read_audit(args.record, head, args.peer)
    entries = entries_of(args.record)
    if args.csv is not None:
        write_text(args.csv, as_csv(entries))
    if args.html is not None:
        write_text(args.html, as_html(found))
    if args.json:
        print_json(as_object(found, entries))
    else:
        print(as_csv(entries) if args.entries else as_text(found), end="")


def allow(args: argparse.Namespace) -> None:
    """Note that a person allows it."""
    from fedgrain.policy.checking import Allowances
    from fedgrain.policy.site_policy import read_policy

    read_policy(args.policy)
    what, name = ("run", args.run_number) if args.run_number else ("app", args.app)
    Allowances.beside(args.policy).add(what, name)
    print(f"allowed {what} {name}")
