"""``fedgrain flower status`` and ``metrics``: see a federation's run while it goes on."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.terminal.arguments import add_json, need_flower, print_json

if TYPE_CHECKING:
    from fedgrain.oversight.status import SiteStatus, Status

_LOOK_SECONDS = 2.0
_NOTICE_SECONDS = 60.0  # a command may take


def add_to(parts: Any) -> None:
    """Add the commands."""
    parser = parts.add_parser(
        "status",
        help="sites, rounds, faults, traffic and time left of a run",
        description="Show where the run of a federation stands, from the server's own files: each "
        "site with its rounds, faults and when it was last seen, the score, the traffic, and how "
        "long the rest takes at most.",
        epilog="Example: fedgrain flower status federation --follow --notify 'logger -t fedgrain'",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of flower init")
    parser.add_argument(
        "--follow", action="store_true", help="show it again after every round, until the run ends"
    )
    parser.add_argument(
        "--notify",
        metavar="COMMAND",
        help="with --follow: run this when a site has sent nothing for two rounds, and when it is "
        "back; it gets the site's name and a sentence as arguments",
    )
    add_json(parser)
    parser.set_defaults(run=status)
    _add_metrics(parts)


def _add_metrics(parts: Any) -> None:
    parser = parts.add_parser(
        "metrics",
        help="figures for Prometheus, of a run or of a site",
        description="Serve /metrics for Prometheus, on this machine only unless --address says "
        "otherwise. At the server the page shows the figures of flower status; at a site what "
        "came and left, by its record, and what its policy declined. It shows no data. Stop it "
        "with Ctrl-C.",
        epilog="Examples: fedgrain flower metrics federation (at the server); "
        "fedgrain flower metrics --site record.jsonl (at a site)",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "folder", type=Path, nargs="?", metavar="DIR", help="the folder of flower init"
    )
    where.add_argument("--site", type=Path, metavar="RECORD", help="the record of this site")
    parser.add_argument("--port", type=int, default=9095, help="(default: 9095)")
    parser.add_argument("--address", default="127.0.0.1", help="(default: 127.0.0.1)")
    parser.set_defaults(run=metrics)


def status(args: argparse.Namespace) -> None:
    """Show the status once, or after every round."""
    from fedgrain.errors import DeploymentError

    need_flower()
    from fedgrain.oversight.status import read_status

    if args.notify is not None and not args.follow:
        raise DeploymentError("--notify needs --follow: it acts when a site's state changes")
    found = read_status(args.folder)
    _show(found, args.json)
    known: set[str] = set()
    while args.follow:
        known = _notified(found, known, args.notify)
        if found.state == "finished":
            return
        time.sleep(_LOOK_SECONDS)
        newer = read_status(args.folder)
        if newer != found:
            _show(newer, args.json)
        found = newer


def _notified(found: Status, known: set[str], command: str | None) -> set[str]:
    """Tell about sites that went missing or came back; return those that are missing."""
    missing = {site.name: site for site in found.missing}
    for name in sorted(missing.keys() - known):
        _notice(command, name, f"{name} has sent nothing for {missing[name].silent} rounds")
    for name in sorted(known - missing.keys()):
        _notice(command, name, f"{name} is back")
    return set(missing)


def _notice(command: str | None, site: str, text: str) -> None:
    print(f"fedgrain: {text}", file=sys.stderr)
    if command is None:
        return
    try:
        words = [*shlex.split(command), site, text]
        done = subprocess.run(words, timeout=_NOTICE_SECONDS, stdin=subprocess.DEVNULL)
        problem = f"exit code {done.returncode}" if done.returncode else ""
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        print(f"fedgrain: warning: the notice was not sent: {problem}", file=sys.stderr)


def _show(found: Status, as_json: bool) -> None:
    from dataclasses import asdict

    from fedgrain.text import spoken_time

    if as_json:
        missing = [site.name for site in found.missing]
        print_json({**asdict(found), "missing": missing})
        return
    facts = [found.state, found.round, found.score]
    if found.at_most_seconds_left is not None:
        facts.append(f"at most {spoken_time(found.at_most_seconds_left)} left")
    print(", ".join(fact for fact in facts if fact))
    print(f"{found.messages} messages, {found.bytes / 1e6:.1f} MB, {found.faults} updates lost")
    rows: list[tuple[str, ...]] = [("site", "rounds", "lost", "last seen (UTC)", "")]
    rows += [_row(site) for site in found.sites]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        print("  " + "  ".join(cell.ljust(width) for cell, width in cells).rstrip())
    sys.stdout.flush()


def _row(site: SiteStatus) -> tuple[str, ...]:
    seen = (site.last_seen or "never").removesuffix("+00:00").replace("T", " ")
    note = "" if site.has_key else "has no key yet"
    if site.missing:
        note = f"MISSING for {site.silent} rounds" + f": {site.reason}" * bool(site.reason)
    return site.name, str(site.rounds), str(site.faults), seen, note


def metrics(args: argparse.Namespace) -> None:
    """Serve the figures until stopped."""
    from fedgrain.errors import DeploymentError

    need_flower()
    from fedgrain.oversight.exposition import figures, serve, site_figures

    def read() -> Any:
        if args.site:
            return site_figures(args.site)
        from fedgrain.oversight.status import read_status

        return figures(read_status(args.folder))

    if args.site and (args.site.is_dir() or not args.site.absolute().parent.is_dir()):
        raise DeploymentError(
            f"--site {args.site}: not a file in a folder that exists; give the site's record.jsonl"
        )
    read()  # refuse a wrong folder before the port is opened
    with serve(read, args.address, args.port) as port:
        print(f"serving http://{args.address}:{port}/metrics", file=sys.stderr, flush=True)
        while True:
            time.sleep(3600)
