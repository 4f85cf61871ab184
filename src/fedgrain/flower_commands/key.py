"""``fedgrain flower key``: a site's own key, made where it stays."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedgrain.terminal.arguments import add_json, need_flower, print_json


def add_to(parts: Any) -> None:
    """Add the command."""
    parser = parts.add_parser(
        "key",
        help="make a site's key, at the site",
        description="Make a site's key pair, at the site: the private part NAME never leaves it; "
        "NAME.pub goes to the operator, who adds it (fedgrain flower add). Tell the operator the "
        "fingerprint over another channel, such as the telephone.",
        epilog="Example: fedgrain flower key museum",
    )
    parser.add_argument("site", metavar="NAME", help="the site's name in the federation")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="where (default: this folder)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Make the pair and say what to do with it."""
    need_flower()
    from fedgrain.deployment.certificates import fingerprint, write_key_pair
    from fedgrain.deployment.key_record import Member, Record
    from fedgrain.errors import DeploymentError

    Record(
        "127.0.0.1", 8000, 8001, 8002, {args.site: Member()}
    )  # refuses a name no federation takes
    private = args.out / args.site
    public = private.with_name(f"{args.site}.pub")
    for path in (private, public):
        if path.exists():
            raise DeploymentError(f"{path}: exists already; choose another folder with --out")
    write_key_pair(private)
    found = fingerprint(public)
    if args.json:
        print_json({"private": str(private), "public": str(public), "fingerprint": found})
        return
    print(
        f"wrote {private} and {public}; keep {private} secret, send {public.name} to the operator"
    )
    print(f"fingerprint: {found}")
