"""``fedgrain flower add``, ``remove``, ``renew``, ``sign``, ``apply`` and ``join``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.cli.arguments import add_json, need_flower, print_json

if TYPE_CHECKING:
    from fedgrain.deployment.key_record import Record
    from fedgrain.membership.join import Papers


def add_to(parts: Any) -> None:
    """Add the operator's commands."""
    parser = _command(
        parts,
        "add",
        add,
        "give a site's name its key",
        "Give a site's name its key and sign a certificate for it. A name that is new becomes a "
        "site of the app; a run that was begun goes on only with the sites it has.",
        "Example: fedgrain flower add federation museum museum.pub",
    )
    parser.add_argument("site", metavar="SITE", help="the site's name")
    parser.add_argument(
        "key", type=Path, nargs="?", metavar="KEY.pub", help="its public key (default: make a pair)"
    )
    parser.add_argument("--replace", action="store_true", help="take the place of an older key")
    parser = _command(
        parts,
        "remove",
        remove,
        "take a site's key away",
        "Take a site's key away: its certificate no longer opens the gate. Its name stays in the "
        "app, so that a run that was begun can go on without it.",
        "Example: fedgrain flower remove federation museum",
    )
    parser.add_argument("site", metavar="SITE", help="the site's name")
    parser.add_argument("--forget", action="store_true", help="take the name out of the app, too")
    parser = _command(
        parts,
        "renew",
        renew,
        "sign new certificates",
        "Sign new certificates for the server and for every site's key; hand out the sites' "
        "folders again, and start the SuperLink again. The sites' last ones open the gate still.",
        "Example: fedgrain flower renew federation",
    )
    parser.add_argument(
        "--everything",
        action="store_true",
        help="with a new authority and signing key: nothing handed out before is worth anything",
    )
    _command(
        parts,
        "sign",
        sign,
        "pack and sign the app again",
        "Pack and sign the app as it is now, after a change of its settings.",
        "Example: fedgrain flower sign federation",
    )
    _command(
        parts,
        "apply",
        apply,
        "make the running server follow",
        "Register every site's key under its name at the running SuperLink, take out all others, "
        "and let the gate read its rules again.",
        "Example: fedgrain flower apply federation",
    )


def _command(
    parts: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    short: str,
    long: str,
    example: str,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        name, help=short, description=long, epilog=example
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of flower init")
    add_json(parser)
    parser.set_defaults(run=run)
    return parser


def add_papers(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add what a site shows, and what it checks the server by."""
    parser.add_argument(
        "--key", type=Path, required=required, metavar="FILE", help="the site's private key"
    )
    parser.add_argument(
        "--certificate", type=Path, metavar="FILE", help="default: ca.crt beside the key"
    )
    parser.add_argument(
        "--site-certificate", type=Path, metavar="FILE", help="default: KEY.crt beside the key"
    )
    parser.add_argument(
        "--trusted",
        type=Path,
        metavar="FILE",
        help="whose apps the site runs (default: trusted.yaml beside the key)",
    )


def add_join(parts: Any) -> None:
    """Add the site's command."""
    parser = parts.add_parser(
        "join",
        help="take part as a site, until stopped",
        description="Start Flower's SuperNode with the site's certificate. It runs only apps that "
        "the federation's operator has signed.",
        epilog="Example: fedgrain flower join --server 10.0.0.5:8000 --key museum --node-config "
        '\'site="museum" images="/path/to/images.csv"\'',
    )
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="the server's gate")
    add_papers(parser, required=True)
    parser.add_argument(
        "--port",
        type=int,
        default=9094,
        help="of the SuperNode, on loopback; one each for sites on one machine (default: 9094)",
    )
    parser.add_argument(
        "--node-config", default="", metavar="TEXT", help="the site's settings, as COMMANDS.md says"
    )
    parser.add_argument(
        "--max-retries", type=int, metavar="N", help="give up after so many tries (default: never)"
    )
    parser.set_defaults(run=join)


def papers(args: argparse.Namespace) -> Papers:
    """Return the papers the arguments name."""
    from fedgrain.membership.join import Papers

    return Papers.beside(args.key, args.site_certificate, args.certificate, args.trusted)


def join(args: argparse.Namespace) -> None:
    """Be a site until told to stop."""
    need_flower()
    from fedgrain.membership.join import join as start

    start(papers(args), args.server, args.node_config, args.port, args.max_retries)


def add(args: argparse.Namespace) -> None:
    """Give a name its key."""
    need_flower()
    from fedgrain.membership import members

    record = members.add(args.folder, args.site, args.key, replace_key=args.replace)
    _tell(args, record, f"{args.site} has its key; send it {args.folder / 'sites' / args.site}")


def remove(args: argparse.Namespace) -> None:
    """Take a name's key away."""
    need_flower()
    from fedgrain.membership import members

    record = members.remove(args.folder, args.site, forget=args.forget)
    _tell(args, record, f"{args.site} is out")


def renew(args: argparse.Namespace) -> None:
    """Sign new certificates."""
    need_flower()
    from fedgrain.membership import members

    record = members.renew(args.folder, everything=args.everything)
    text = (
        f"the server's and the sites' certificates are new; send each site {args.folder / 'sites'}"
    )
    _tell(args, record, f"{text}/NAME and start the SuperLink again")


def sign(args: argparse.Namespace) -> None:
    """Pack and sign the app."""
    need_flower()
    from fedgrain.membership import members

    _tell(args, members.sign(args.folder), "the app is signed as it is now")


def apply(args: argparse.Namespace) -> None:
    """Make the running server follow the record."""
    need_flower()
    from fedgrain.membership import apply as registry

    applied = registry.apply(args.folder)
    if args.json:
        print_json(vars(applied))
        return
    for heading, names in (
        ("let in", applied.registered),
        ("taken out", applied.unregistered),
        ("without a key yet", applied.without_key),
    ):
        print(f"{heading}: {', '.join(names) or 'none'}")
    print("the gate reads its new rules" if applied.gate else "the gate is not running: start it")


def _tell(args: argparse.Namespace, record: Record, text: str) -> None:
    if args.json:
        sites = {
            name: {"key": member.key or None, "certificates": len(member.serials)}
            for name, member in record.members.items()
        }
        print_json({"folder": str(args.folder.absolute()), "sites": sites})
        return
    print(f"{text}; a running server follows with: fedgrain flower apply {args.folder}")
