"""``fedgrain benchmark``: compare a method by a frozen protocol."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import TABLE_FORMATS
from fedgrain.terminal.arguments import add_json, add_trust, print_json

if TYPE_CHECKING:
    from fedgrain.benchmark import Track

Command = Callable[[argparse.Namespace], None]


def add_to(commands: Any) -> None:
    """Add the command and its parts."""
    parser = commands.add_parser(
        "benchmark",
        help="compare a method by a frozen protocol",
        description="Run a method on a track of the benchmark, pack its result, check a packed "
        "result, and build the leaderboard. Version 1 has the tracks glyphs (minutes), trunk and "
        "scratch (CIFAR-100). Data, splits and knowledge are checked by hash.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    run = _part(parts, "run", run_method, "run a method on a track")
    run.add_argument("version", metavar="VERSION", help="v1")
    run.add_argument("--track", default="glyphs", help="glyphs (default), trunk or scratch")
    run.add_argument(
        "--method", action="append", required=True, dest="methods",
        help="as in a study: flat-softmax/projection, mymodule:MyHead/paper+lr=0.05, "
        "mymodule:MyAlgorithm:flat-softmax/paper; repeatable",
    )  # fmt: skip
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="default: studies/benchmark-VERSION-TRACK"
    )
    run.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: cores)")
    add_trust(run)
    submit = _part(parts, "submit", submit_result, "pack the finished results of a folder")
    submit.add_argument("folder", type=Path, metavar="DIR", help="the folder of benchmark run")
    submit.add_argument("--method", action="append", dest="methods", help="default: all of them")
    submit.add_argument("--out", type=Path, metavar="DIR", help="default: submissions in it")
    add_trust(submit)
    check = _part(parts, "check", check_results, "check packed results against the protocol")
    check.add_argument("files", type=Path, nargs="+", metavar="FILE.zip")
    board = _part(parts, "leaderboard", show_leaderboard, "rank packed results")
    board.add_argument("places", type=Path, nargs="+", metavar="FILE.zip|DIR")
    board.add_argument("--format", choices=TABLE_FORMATS, default="text", help="default: text")
    board.add_argument("--out", type=Path, metavar="FILE.html", help="also write a page")


def _part(parts: Any, name: str, command: Command, what: str) -> Any:
    parser = parts.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    parser.set_defaults(run=command)
    add_json(parser)
    return parser


def run_method(args: argparse.Namespace) -> None:
    """Run methods on a track, in portable arithmetic; print their scores."""
    from fedgrain.arithmetic import prefer_portable

    prefer_portable()  # before anything loads numpy or torch
    from fedgrain.benchmark import check_frozen, read_protocol
    from fedgrain.cli.study import progress_bar
    from fedgrain.cores import available_cores
    from fedgrain.errors import BenchmarkError
    from fedgrain.studies.execute import run_study
    from fedgrain.studies.executors import local_workers
    from fedgrain.studies.own_code import check_own_code
    from fedgrain.studies.study_folder import StudyFolder
    from fedgrain.tables.collect import read_results
    from fedgrain.tables.study_tables import score_tables
    from fedgrain.tables.table_formats import format_tables

    rules = read_protocol(args.version)
    track = rules.track(args.track)
    folder = args.out or Path("studies") / f"benchmark-{args.version}-{args.track}"
    study = track.study(_methods(folder, track, args.methods, args.trust_code))
    jobs = available_cores() if args.jobs is None else args.jobs
    if jobs < 1:
        raise BenchmarkError(f"--jobs is {jobs}, but must be at least 1")
    print("checking data, splits and knowledge by hash", file=sys.stderr)
    check_frozen(rules, track)
    check_own_code(study, StudyFolder(folder))
    bar = progress_bar(folder)
    try:
        with local_workers(jobs) as executor:
            outcome = run_study(study, folder, executor, bar)
    except KeyboardInterrupt:
        bar.close()
        told = "\nstopped; the same command resumes from the last complete rounds"
        print(told, file=sys.stderr)
        raise
    finally:
        bar.close()
    tables = score_tables(read_results(folder))
    print(format_tables(tables, "json" if args.json else "text"), end="")
    for name, problem in outcome.failures.items():
        print(f"fedgrain: failed: {name}: {problem}", file=sys.stderr)
    if outcome.failures:
        sys.exit(1)


def _methods(folder: Path, track: Track, typed: Sequence[str], trust: bool) -> Sequence[str]:
    """Return the methods of the folder, then the new ones; refuse code only the folder names."""
    from fedgrain.errors import BenchmarkError
    from fedgrain.studies.study_file import read_study

    methods = list(dict.fromkeys(typed))
    if not (folder / "study.toml").exists():
        return methods
    before = read_study(folder / "study.toml")
    code = before.code() - track.study(methods).code()
    if code and not trust:
        raise BenchmarkError(
            f"{folder}: its study names {sorted(code)[0]!r}, code that would run on this machine; "
            "if you trust its author, add --trust-code"
        )
    return [*before.methods, *(m for m in methods if m not in before.methods)]


def submit_result(args: argparse.Namespace) -> None:
    """Pack each method of a folder into a file of its own; its models predict as they were run."""
    from fedgrain.arithmetic import prefer_portable

    prefer_portable()
    from fedgrain.benchmark import pack, read_protocol
    from fedgrain.errors import BenchmarkError
    from fedgrain.studies.planned_runs import safe_name
    from fedgrain.studies.study_file import read_study

    if not (args.folder / "study.toml").exists():
        raise BenchmarkError(f"{args.folder}: no result here; make one with fedgrain benchmark run")
    study = read_study(args.folder / "study.toml")
    kind, _, rest = study.name.partition("-")
    version, _, name = rest.partition("-")
    if kind != "benchmark":
        raise BenchmarkError(
            f"{args.folder}: study {study.name!r} is no track of the benchmark; run one with "
            "fedgrain benchmark run"
        )
    track, out = read_protocol(version).track(name), args.out or args.folder / "submissions"
    trust = args.trust_code or (track.study(args.methods).code() if args.methods else False)
    written = []
    for method in args.methods or study.methods:
        path = out / f"{version}-{name}-{safe_name(method)}.zip"
        pack(args.folder, track, method, path, trust)
        written.append(str(path))
        print(f"packed {method}: {path}", file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print_json({"packed": written})


def check_results(args: argparse.Namespace) -> None:
    """Check packed results: settings, data, and the scores of their predictions."""
    from fedgrain.arithmetic import prefer_portable

    prefer_portable()
    from fedgrain.benchmark import check_frozen, check_predictions, read_protocol, read_submission
    from fedgrain.tables.intervals import estimate

    told, prepared = [], {}
    for path in args.files:
        track = read_submission(path).track
        if track.name not in prepared:
            prepared[track.name] = check_frozen(read_protocol(track.version), track)
        found = check_predictions(path, prepared[track.name])
        for alpha in track.alphas:
            value = estimate(list(found.by_seed(alpha).values()))
            entry = {"file": str(path), "track": track.name, "method": found.method,
                     "portable": found.portable}  # fmt: skip
            told.append({**entry, "alpha": alpha, "hf": value.mean, "interval95": value.interval})
            if not args.json:
                print(f"{path}: follows benchmark {track.version}, track {track.name}: "
                      f"{found.method}, alpha {alpha:g}, HF {value.mean:.4f}")  # fmt: skip
        if not found.portable:
            print(f"{path}: not in portable arithmetic: another kind of CPU would give other last "
                  "digits; FEDGRAIN_ARITHMETIC=portable before benchmark run avoids this",
                  file=sys.stderr)  # fmt: skip
    if args.json:
        print_json({"checked": told})


def show_leaderboard(args: argparse.Namespace) -> None:
    """Print the leaderboard, and write it as a page if asked."""
    from fedgrain.benchmark import leaderboard_tables
    from fedgrain.tables.table_formats import format_tables

    tables = leaderboard_tables(args.places)
    print(format_tables(tables, "json" if args.json else args.format), end="")
    if args.out is not None:
        from fedgrain.report.leaderboard_page import write_leaderboard

        write_leaderboard(tables, args.out)
        print(f"page: {args.out}", file=sys.stderr)
