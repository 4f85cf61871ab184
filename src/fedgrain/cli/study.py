"""``fedgrain study``: compare methods over alphas, seeds and data sets."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.terminal.arguments import add_json, add_track, add_trust, print_json
from fedgrain.terminal.one_bar import OneBar

if TYPE_CHECKING:
    from fedgrain.plugins import Trust
    from fedgrain.studies.study import Study

_MOST_SEEDS = 10_000  # in one range


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "study",
        help="compare methods over alphas, seeds and data sets",
        description="Run a grid of methods x alphas x seeds (x data sets), with a search of "
        "learning rates first if asked, and print its table. A study is a folder: the same "
        "command resumes it after an interruption, and may add to its grid.",
        epilog="Studies by name: demo, alone (is it better than alone? each site of your manifest "
        "alone, all together, all images at one place), paper-cifar100, paper-tiny-imagenet, "
        "paper-imagenet, paper-zero-shot. Methods: <head>/<supervision> such as "
        "flat-softmax/projection, fedbdft/paper, and the bounds local-only, centralised, oracle, "
        "ceiling (oracle:<head>, or of a method, local-only:<head>/<supervision>). "
        "With settings of its own a method is a variant: flat-softmax/projection+laziness=0.1.",
    )
    parser.add_argument("study", metavar="NAME|FILE.toml", help="a study by name, or its file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: studies/NAME")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster instead")
    grid = parser.add_argument_group("the grid (lists are separated by commas)")
    grid.add_argument("--datasets", type=_words, metavar="A,B")
    grid.add_argument(
        "--data-root", metavar="DIR", help="where the images are; short for --set data_root=DIR"
    )
    grid.add_argument(
        "--like",
        type=Path,
        metavar="RUN",
        help="take data, method and every setting from the folder of a run; other options change "
        "what they name",
    )
    grid.add_argument("--methods", type=_words, metavar="A,B")
    grid.add_argument("--alphas", type=_floats, metavar="0,0.9")
    grid.add_argument("--seeds", type=_ints, metavar="47,48", help="numbers, or a range 47-56")
    grid.add_argument("--rounds", type=int, metavar="N", help="short for --set rounds=N")
    grid.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of every run (see fedgrain run --help)",
    )
    search = parser.add_argument_group("the search of learning rates")
    search.add_argument(
        "--search", action=argparse.BooleanOptionalAction, default=None, help="search first"
    )
    search.add_argument("--candidates", type=_floats, metavar="0.05,0.1")
    search.add_argument("--branch-candidates", type=_floats, metavar="0.01,0.02")
    search.add_argument("--search-seeds", type=_ints, metavar="42-46")
    search.add_argument(
        "--search-set",
        dest="search_settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the search's runs alone, such as rounds=8",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="run only the runs that match, by the names --dry-run lists, such as "
        "'*alpha0.9*seed47'; may be repeated: runs of the first pattern go first",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list the runs of the grid, count those of the search, and stop",
    )
    add_trust(parser)
    add_track(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _floats(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in _words(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers, as 0,0.9") from None


def _ints(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for word in _words(text):
        first, _, last = word.partition("-")
        try:
            wanted = range(int(first), int(last or first) + 1)
            if len(wanted) > _MOST_SEEDS:
                raise argparse.ArgumentTypeError(
                    f"{word} are {len(wanted)} numbers; at most {_MOST_SEEDS} can be given"
                )
            numbers += wanted
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a list of whole numbers, as 47,48 or 47-56"
            ) from None
    return tuple(numbers)


def _study_of(args: argparse.Namespace) -> Study:
    """Return the named study, with the options overriding it."""
    from fedgrain.studies.options import chosen_study

    parts = ["datasets", "methods", "alphas", "seeds", "search", "candidates"]
    parts += ["branch_candidates", "search_seeds"]
    given = {name: getattr(args, name) for name in parts if getattr(args, name) is not None}
    settings = args.settings + ([] if args.rounds is None else [f"rounds={args.rounds}"])
    if args.data_root is not None:
        settings.append(f"data_root={json.dumps(args.data_root)}")  # whatever it is, it is a text
    return chosen_study(
        args.study,
        given,
        settings,
        args.search_settings,
        like=args.like,
        trust_code=args.trust_code,
    )


def run(args: argparse.Namespace) -> None:
    """Run or resume a study; print its table, its findings and its figure.

    Studies of published data by name use portable arithmetic, so that they compare with published
    figures.
    """
    from fedgrain.arithmetic import prefer_portable
    from fedgrain.studies.options import is_file

    if not is_file(args.study) and args.study != "alone":
        prefer_portable()  # before anything loads numpy or torch
    from fedgrain.cores import available_cores
    from fedgrain.errors import StudyError
    from fedgrain.studies.execute import run_study
    from fedgrain.studies.executors import dask_workers, local_workers
    from fedgrain.studies.own_code import check_own_code
    from fedgrain.studies.study_folder import StudyFolder

    study = _study_of(args)
    folder = args.out or Path("studies") / study.name
    if args.dry_run:
        _list(study, folder, args.only, args.json)
        return
    jobs = available_cores() if args.jobs is None else args.jobs
    if jobs < 1:
        raise StudyError(f"--jobs is {jobs}, but must be at least 1")
    tracking = None
    if args.track:
        from fedgrain.runs.tracking import Tracking

        tracking = Tracking(args.track, study.name)
        tracking.prepare()
    if not args.dask:  # its workers may have code that is not here
        check_own_code(study, StudyFolder(folder))
    bar = progress_bar(folder)
    try:
        with dask_workers(args.dask) if args.dask else local_workers(jobs) as executor:
            outcome = run_study(study, folder, executor, bar, tracking, args.only)
    except KeyboardInterrupt:
        bar.close()
        print(
            f"\nstopped; resume from the last complete rounds with: {_again(args, folder, study)}",
            file=sys.stderr,
        )
        raise
    finally:
        bar.close()
    _report(folder, args.json, args.trust_code or study.code())
    if outcome.failures:
        for name, problem in outcome.failures.items():
            print(f"fedgrain: failed: {name}: {problem}", file=sys.stderr)
        print(f"fedgrain: {len(outcome.failures)} runs failed", file=sys.stderr)
        sys.exit(1)


def _again(args: argparse.Namespace, folder: Path, study: Study) -> str:
    """Return the command that resumes this one."""
    from fedgrain.arithmetic import VARIABLE

    chosen = os.environ.get(VARIABLE)
    words = [f"{VARIABLE}={chosen}"] if chosen else []
    words += ["fedgrain", "study", str(folder / "study.toml"), "--out", str(folder)]
    for pattern in args.only:
        words += ["--only", pattern]
    for option in ("jobs", "dask", "track"):
        value = getattr(args, option)
        words += [] if value is None else [f"--{option}", str(value)]
    return shlex.join(words + ["--trust-code"] * bool(study.code()))


def _list(study: Study, folder: Path, only: list[str], as_json: bool) -> None:
    """Print the runs, and how many of a search come first; refuse a folder not fit for them."""
    from fedgrain.studies.own_sites import with_sites
    from fedgrain.studies.planned_runs import plan_runs, selected
    from fedgrain.studies.rate_search import runs_to_search
    from fedgrain.studies.study_folder import StudyFolder, check_folder

    whole = with_sites(study.complete())
    check_folder(whole, StudyFolder(folder))
    searched = runs_to_search(whole, StudyFolder(folder))
    names = [planned.name for planned in selected(plan_runs(whole, {}), only)]
    if as_json:
        print_json({"study": study.name, "search_runs": searched, "runs": names})
        return
    print("\n".join(names))
    if searched:
        print(f"before these, {searched} runs search the learning rates", file=sys.stderr)


def _report(folder: Path, as_json: bool, trust: Trust) -> None:
    """Write and print the results of the finished runs."""
    from fedgrain.report.study_results import write_results

    written = write_results(folder, trust_code=trust)
    if as_json:
        print_json(written.content())
    else:
        print(written.text())


def progress_bar(folder: Path) -> Any:
    """Return one bar for the whole study, on standard error, with the time left.

    The score of a run is written above it as soon as the run ends.
    """
    from fedgrain.runs.run_folder import RunFolder
    from fedgrain.studies.study_folder import StudyFolder

    runs = StudyFolder(folder).runs

    class Bar(OneBar):
        what = ""

        def start(self, what: str, total: int, done: int) -> None:
            self.what = what
            self.show(what, total, done, "run")

        def finished(self, name: str, problem: str | None) -> None:
            if problem is not None:
                self.bar.write(f"failed: {name}: {problem}", file=sys.stderr)
            elif self.what == "runs":
                hf = RunFolder(runs / name).read_result()["hf"]
                if hf is not None:
                    self.bar.write(f"{name}: HF {hf:.3f}", file=sys.stderr)
            self.bar.update()

    return Bar()
