"""``fedgrain flower add``, ``remove``, ``renew``, ``sign``, ``apply`` and ``join``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.terminal.arguments import add_json, add_trust, need_flower, print_json

if TYPE_CHECKING:
    from fedgrain.deployment.key_record import Record
    from fedgrain.membership.join import SiteCredentials


def add_to(parts: Any) -> None:
    """Add the operator's commands."""
    parser = _command(
        parts,
        "add",
        add,
        "record a site's key",
        "Record a site's key under its name and sign a certificate for it. A new name becomes a "
        "site of the app; a run that has started continues only with the sites it has.",
        "Example: fedgrain flower add federation museum museum.pub",
    )
    parser.add_argument("site", metavar="SITE", help="the site's name")
    parser.add_argument(
        "key",
        type=Path,
        nargs="?",
        metavar="KEY.pub",
        help="its public key (without it a pair is made here, for trials on one machine)",
    )
    parser.add_argument("--replace", action="store_true", help="take the place of an older key")
    parser = _command(
        parts,
        "remove",
        remove,
        "take a site's key away",
        "Take a site's key away: its certificate no longer opens the gate. Its name stays in the "
        "app, so that a run that has started can continue without it.",
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
        "folders again, and restart the SuperLink. The sites' previous certificates stay valid.",
        "Example: fedgrain flower renew federation",
    )
    parser.add_argument(
        "--everything",
        action="store_true",
        help="with a new authority and signing key: everything handed out before becomes invalid",
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
        "apply the record to the running server",
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
    """Add the site's key and certificates, and what it trusts."""
    parser.add_argument(
        "--key", type=Path, required=required, metavar="FILE", help="the site's private key"
    )
    parser.add_argument(
        "--certificate", type=Path, metavar="FILE", help="default: ca.crt next to the key"
    )
    parser.add_argument(
        "--site-certificate", type=Path, metavar="FILE", help="default: KEY.crt next to the key"
    )
    parser.add_argument(
        "--trusted",
        type=Path,
        metavar="FILE",
        help="whose apps the site runs (default: trusted.yaml next to the key)",
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
        "--policy",
        type=Path,
        metavar="FILE",
        help="what the site's owner allows (default: site.toml next to the key, if there is one)",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="of all that comes and leaves (default: record.jsonl next to the key)",
    )
    parser.add_argument(
        "--max-retries", type=int, metavar="N", help="give up after N tries (default: never)"
    )
    add_trust(parser)
    parser.set_defaults(run=join)


def credentials(args: argparse.Namespace) -> SiteCredentials:
    """Return the credentials the arguments name."""
    from fedgrain.membership.join import SiteCredentials

    return SiteCredentials.beside(args.key, args.site_certificate, args.certificate, args.trusted)


def join(args: argparse.Namespace) -> None:
    """Run as a site until stopped."""
    need_flower()
    from fedgrain.membership.join import OwnersFiles
    from fedgrain.membership.join import join as start

    owner = OwnersFiles.beside(args.key, args.policy, args.record)
    settings = f"{args.node_config} trust-code=true" if args.trust_code else args.node_config
    start(credentials(args), args.server, settings, args.port, args.max_retries, owner)


def add(args: argparse.Namespace) -> None:
    """Record a site's key."""
    need_flower()
    from fedgrain.membership import members

    record = members.add(args.folder, args.site, args.key, replace_key=args.replace)
    _tell(
        args,
        record,
        f"recorded the key of {args.site}; send it {args.folder / 'sites' / args.site}",
    )


def remove(args: argparse.Namespace) -> None:
    """Remove a site's key."""
    need_flower()
    from fedgrain.membership import members

    record = members.remove(args.folder, args.site, forget=args.forget)
    _tell(args, record, f"removed the key of {args.site}")


def renew(args: argparse.Namespace) -> None:
    """Sign new certificates."""
    need_flower()
    from fedgrain.membership import members

    record = members.renew(args.folder, everything=args.everything)
    text = (
        f"the server's and the sites' certificates are new; send each site {args.folder / 'sites'}"
    )
    _tell(args, record, f"{text}/NAME and restart the SuperLink")


def sign(args: argparse.Namespace) -> None:
    """Pack and sign the app."""
    need_flower()
    from fedgrain.membership import members

    _tell(args, members.sign(args.folder), "signed the app")


def apply(args: argparse.Namespace) -> None:
    """Apply the record to the running server."""
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
    print("the gate reloaded its rules" if applied.gate else "the gate is not running: start it")


def _tell(args: argparse.Namespace, record: Record, text: str) -> None:
    if args.json:
        sites = {
            name: {"key": member.key or None, "certificates": len(member.serials)}
            for name, member in record.members.items()
        }
        print_json({"folder": str(args.folder.absolute()), "sites": sites})
        return
    print(f"{text}; to update a running server: fedgrain flower apply {args.folder}")
