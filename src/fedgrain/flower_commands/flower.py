"""``fedgrain flower``: prepare a federation across machines, and check a site before it joins."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedgrain.catalogue import stages
from fedgrain.flower_commands import audit, key, members, status
from fedgrain.terminal.arguments import add_json, add_trust, need_flower, print_json


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "flower",
        help="train across machines, on Flower",
        description="Prepare a federation across machines, on Flower (see docs/deploy.md).",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_init(parts)
    members.add_to(parts)
    key.add_to(parts)
    _add_check(parts)
    members.add_join(parts)
    status.add_to(parts)
    audit.add_to(parts)


def _add_init(parts: Any) -> None:
    parser = parts.add_parser(
        "init",
        help="write the folder from which a federation is started",
        description="Write a folder with the signed Flower app, certificates, the rules of the "
        "gate (nginx) before the server, and COMMANDS.md: what to type on each machine.",
        epilog="Example: fedgrain flower init federation --taxonomy tree.csv --host 10.0.0.5 "
        "--site museum --site zoo --site herbarium",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder")
    parser.add_argument(
        "--taxonomy", type=Path, metavar="CSV", help="the tree all sites label by: parent,child"
    )
    parser.add_argument("--config", type=Path, metavar="TOML", help="settings as of fedgrain run")
    add_trust(parser)
    parser.add_argument(
        "--site", action="append", default=[], metavar="NAME", dest="sites", help="once per site"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="name or address by which sites reach the server"
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="of the gate, for the sites (default: 8000)"
    )
    parser.add_argument(
        "--link-port", type=int, metavar="N", help="of the SuperLink, on loopback (default: port+1)"
    )
    parser.add_argument(
        "--hub-port", type=int, metavar="N", help="of the signed app, on loopback (default: port+2)"
    )
    parser.add_argument(
        "--keys",
        action="store_true",
        help="for a trial on one machine: make every site's key here (otherwise each site makes "
        "its own, fedgrain flower key, and it never leaves the site)",
    )
    parser.add_argument(
        "--count-rounding",
        type=int,
        default=1,
        metavar="N",
        help="sites report counts rounded to multiples of N: exact counts per branch show the "
        "server a site's label histogram (default: 1, exact)",
    )
    parser.add_argument(
        "--wait-seconds",
        type=int,
        default=600,
        metavar="N",
        help="how long the server waits for all sites before it goes on (default: 600)",
    )
    parser.add_argument(
        "--strategy",
        default="ours",
        metavar="NAME",
        help="how updates become a model: ours (default), or one of Flower's by name: FedAvgM, "
        "FedAdam, FedYogi, FedMedian, FedTrimmedAvg, Krum",
    )
    parser.add_argument(
        "--most-samples",
        type=int,
        metavar="N",
        help="count at most N samples of a site, whatever it claims (default: a hundred times the "
        "median of the other sites)",
    )
    _add_privacy(parser)
    add_json(parser)
    parser.set_defaults(run=init)


def _add_privacy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dp-noise-multiplier",
        type=float,
        metavar="Z",
        help="differential privacy: sites add Gaussian noise to every update, with a deviation of "
        "Z times --dp-clip on every weight, and report nothing else (needs the extra dp)",
    )
    parser.add_argument(
        "--dp-clip", type=float, metavar="C", help="the norm to which a site clips its update"
    )
    parser.add_argument(
        "--dp-delta",
        type=float,
        metavar="D",
        help="the delta at which epsilon is computed (default: 1e-5)",
    )


def _add_check(parts: Any) -> None:
    parser = parts.add_parser(
        "check",
        help="check a site before it joins",
        description="Check a site before it joins: its labels against the taxonomy, counts per "
        "depth and branch, the connection, certificate and key, and what will leave the site.",
        epilog="Example: fedgrain flower check --app app --images images.csv --site museum "
        "--server 10.0.0.5:8000 --key museum",
    )
    parser.add_argument("--app", type=Path, required=True, metavar="DIR", help="the server's app")
    parser.add_argument(
        "--images", type=Path, required=True, metavar="CSV", help="the site's manifest"
    )
    parser.add_argument(
        "--allow-links", action="store_true", help="follow links to images out of its folder"
    )
    add_trust(parser)
    parser.add_argument("--site", required=True, metavar="NAME", help="the site's name")
    parser.add_argument("--knowledge", metavar="JSON", help="what the site knows, if not inferred")
    parser.add_argument("--count-rounding", type=int, default=1, metavar="N", help="as the app's")
    parser.add_argument("--server", metavar="HOST:PORT", help="also check the connection")
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="the site's site.toml: what would be allowed"
    )
    members.add_papers(parser, required=False)
    add_json(parser)
    parser.set_defaults(run=check)


def check(args: argparse.Namespace) -> None:
    """Check, print every finding, and fail if any is bad."""
    from fedgrain.errors import DeploymentError

    need_flower()
    from fedgrain.deployment.app import app_privacy
    from fedgrain.oversight.check import (
        STAYS,
        Server,
        check_credentials,
        check_server,
        check_site,
        leaving,
    )

    if args.count_rounding < 1:
        raise DeploymentError(f"--count-rounding is {args.count_rounding}, but must be at least 1")
    if args.server is not None and args.certificate is None and args.key is None:
        raise DeploymentError("--server needs --key, or at least --certificate")
    findings, counted = check_site(
        args.app,
        args.images,
        args.site,
        args.knowledge,
        args.count_rounding,
        allow_links=args.allow_links,
        trust_code=args.trust_code,
    )
    credentials = members.credentials(args) if args.key is not None else None
    own = [] if credentials is None else list(check_credentials(credentials, args.site))
    findings += own
    if args.server is not None:
        certificate = credentials.authority if credentials is not None else args.certificate
        server = Server(args.server, certificate, credentials)
        findings += check_server(server, register=all(finding.good for finding in own))
    policy = None
    if args.policy is not None:
        from fedgrain.oversight.check_policy import check_policy

        policy, told = check_policy(args.policy, args.app, args.server)
        findings += told
    leaves = leaving(args.count_rounding, app_privacy(args.app), policy)
    if args.json:
        summary = {"findings": [vars(finding) for finding in findings], "counted": counted}
        print_json({**summary, "leaves": leaves, "stays": STAYS})
    else:
        _print_findings(findings, counted)
        print("what will leave the site:")
        print("\n".join(f"  - {line}" for line in leaves))
        print(f"what never leaves it: {STAYS}")
    bad = sum(not finding.good for finding in findings)
    if bad:
        raise DeploymentError(f"{bad} of {len(findings)} checks failed; see the lines marked BAD")


def _print_findings(findings: list[Any], counted: dict[str, Any]) -> None:
    for finding in findings:
        print(f"{'good' if finding.good else 'BAD '}  {finding.subject}: {finding.text}")
    if "per_depth" in counted:
        depths = ", ".join(f"{depth}: {count}" for depth, count in counted["per_depth"].items())
        print(f"labels per depth  {depths}")
    for heading in ("told", "withheld"):
        if heading in counted:
            branches = counted[heading]["per_branch"].items()
            print(f"samples that enter the loss  {counted[heading]['samples']}")
            print("samples per branch  " + ", ".join(f"{name}: {n}" for name, n in branches))


def init(args: argparse.Namespace) -> None:
    """Write the folder and print the next step."""
    from fedgrain.config.config import Config
    from fedgrain.config.config_texts import read_config
    from fedgrain.errors import ConfigError
    from fedgrain.plugins import check_trust

    need_flower()
    from fedgrain.deployment.privacy import Privacy
    from fedgrain.membership.init import Deployment, write_deployment

    given: dict[str, Any] = {"dataset": "folder"} if args.taxonomy is not None else {}
    config = Config(**given)
    if args.config is not None:
        config = read_config(args.config, on_top=given)
        check_trust(config.settings(), args.config, args.trust_code, ConfigError)
    privacy = Privacy.given(args.dp_noise_multiplier, args.dp_clip, args.dp_delta)
    wanted = Deployment(
        args.folder,
        args.sites,
        args.host,
        args.port,
        args.keys,
        args.count_rounding,
        args.wait_seconds,
        args.strategy,
        privacy,
        args.most_samples,
        args.link_port,
        args.hub_port,
    )
    summary: dict[str, Any] = {"folder": str(args.folder.absolute()), "sites": args.sites}
    if privacy is not None:
        releases = sum(getattr(config, stage.cap) for stage in stages(config.algorithm))
        summary["privacy"] = privacy.report(dict.fromkeys(args.sites, releases))
    write_deployment(wanted, config, args.taxonomy)
    if args.json:
        print_json(summary)
        return
    if privacy is not None:
        print(
            f"each site sends at most {releases} updates if no round is repeated: an epsilon of "
            f"{summary['privacy']['epsilon']:.3g} at a delta of {privacy.delta:g}"
        )
    print(f"wrote {args.folder}; its COMMANDS.md lists what to type on each machine")
    if args.keys:
        print(
            "the sites' private keys were made here, which is for trials on one machine: for a "
            "real federation leave --keys out, and each site makes its own (fedgrain flower key)"
        )
