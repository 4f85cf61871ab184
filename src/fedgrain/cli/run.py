"""``fedgrain run``: train and test one model."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedgrain.catalogue import algorithm
from fedgrain.config.config import Config
from fedgrain.config.config_texts import read_config
from fedgrain.errors import ConfigError
from fedgrain.plugins import check_trust
from fedgrain.terminal.arguments import add_json, add_track, add_trust, print_json
from fedgrain.terminal.one_bar import OneBar
from fedgrain.text import one_line, spoken_time

LONGEST = 1000  # characters of a line about a client
KINDS = {"int": int, "float": float, "str": str}


def add_to(commands: Any) -> None:
    """Add the command; every setting of a config is an option."""
    parser = commands.add_parser(
        "run",
        help="train and test one model",
        description="Train one model in a federation of clients that label at different levels of "
        "detail, and test it. The run is kept in a folder: the same command resumes it after an "
        "interruption, and prints its result if it is finished.",
        epilog="Example: fedgrain run --dataset glyphs --algorithm fedbdft --out runs/one",
    )
    parser.add_argument(
        "config_file",
        nargs="?",
        type=Path,
        metavar="CONFIG",
        help="a config.toml; options override it",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the run's folder (default: runs/...)"
    )
    parser.add_argument(
        "--workers",
        default="auto",
        metavar="N",
        help="processes that train clients; auto (default) is one per core; the result is the same",
    )
    parser.add_argument(
        "--device", default="auto", metavar="NAME", help="cpu, cuda or auto (default: auto)"
    )
    add_trust(parser)
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback when a client's training fails"
    )
    add_track(parser)
    add_json(parser)
    for setting in fields(Config):
        kind = str(setting.type).removesuffix(" | None")
        flag = "--" + setting.name.replace("_", "-")
        choices = setting.metadata["choices"]
        text = setting.metadata["help"] + (f": {', '.join(choices)}" if choices else "")
        if setting.default is not None:
            text += f" (default: {setting.default})"
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text}
        if kind == "bool":
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
        else:
            shown = setting.name.upper().rsplit("_", 1)[-1]
            parser.add_argument(flag, type=KINDS[kind], metavar=shown, **options)
    parser.set_defaults(run=run)


def _config_of(args: argparse.Namespace) -> Config:
    """Return the config file's settings with the options on top.

    Code given on the command line is trusted; code named in the file needs ``--trust-code``.
    """
    given = {s.name: getattr(args, s.name) for s in fields(Config) if s.name in vars(args)}
    if args.config_file is None:
        return Config(**given)
    if (args.config_file.parent / "environment.json").exists():  # the config of a run
        from fedgrain.config.defaults import as_begun
        from fedgrain.runs.run_folder import RunFolder

        RunFolder(args.config_file.parent).check_config()
        config = as_begun(read_config(args.config_file, on_top=given))
    else:
        config = read_config(args.config_file, on_top=given)
    named = {name: value for name, value in config.settings().items() if name not in given}
    check_trust(named, args.config_file, args.trust_code, ConfigError)
    return config


def _default_folder(config: Config) -> Path:
    """Return a folder named after the settings that distinguish runs."""
    head, supervision = config.head or "", config.supervision or "paper"
    parts = (config.dataset, config.algorithm, head, supervision)
    name = "-".join(part.replace(":", "-").replace("/", "-") for part in parts)
    skew = "" if config.alpha is None else f"-alpha{config.alpha:g}"
    return Path("runs") / f"{name}{skew}-seed{config.seed}"


def run(args: argparse.Namespace) -> None:
    """Run or resume, and print the result."""
    config = _config_of(args)
    from fedgrain.config.by_data import completed
    from fedgrain.engines.allocator import keep_freed_memory
    from fedgrain.runs.run import run as run_experiment
    from fedgrain.runs.run_folder import RunFolder
    from fedgrain.scoring.validation_score import describe

    config = completed(config, RunFolder(args.out).begun() if args.out else None)
    folder = args.out or _default_folder(config)

    if args.debug:
        import logging

        logging.getLogger("fedgrain.faults").addHandler(logging.StreamHandler())
    keep_freed_memory()  # with one worker the clients train in this process
    progress = progress_bar(config)
    callbacks = [progress]
    if args.track:
        from fedgrain.runs.tracking import Tracking

        tracking = Tracking(args.track)
        tracking.prepare()
        callbacks.append(tracking.callback(config, folder))
    finished = RunFolder(folder).finished(config)
    try:
        result = run_experiment(config, folder, callbacks, workers=args.workers, device=args.device)
    except KeyboardInterrupt:
        progress.close()
        print(f"\n{how_to_resume(folder, config)}", file=sys.stderr)
        raise
    finally:
        progress.close()
    if finished:
        print(f"the run in {folder} is finished already", file=sys.stderr)
    if args.json:
        print_json(result.values)
        return
    method = f"{config.algorithm}, {config.head}, {config.supervision}"
    who = f"knowledge {config.knowledge}" if config.alpha is None else f"alpha {config.alpha:g}"
    print(f"{method}, {who}, seed {config.seed}")
    print(f"rounds {result.rounds}" + (f", cycles {result.cycles}" if result.cycles else ""))
    lost, again = result.values.get("faults", 0), result.values.get("retries", 0)
    if lost or again:
        print(f"updates lost {lost}, tasks done again {again}: see metrics.jsonl")
    if result.validation_hf is not None:
        print(describe(result.validation, result.validation_hf))
    if result.tested_on:
        scores = f"HF {result.hf:.4f}   HR {result.hr:.4f}   HP {result.hp:.4f}"
        print(f"{scores}   on the {result.tested_on} images")
        labels = result.values.get("tested_labels")
        if labels and labels["leaf_samples"] < labels["samples"]:
            print(describe(labels, result.hf, name=f"{result.tested_on} HF"))
    if result.values.get("accuracy") is not None:
        print(f"leaf accuracy  {result.accuracy:.4f}")
    print(f"everything is in {folder}")


def how_to_resume(folder: Path, config: Config) -> str:
    """Return the message for a user who stopped the run."""
    if not (folder / "config.toml").exists():
        return "stopped before the first round; nothing was kept"
    words = ["fedgrain", "run", str(folder / "config.toml"), "--out", str(folder)]
    command = shlex.join(words + ["--trust-code"] * bool(config.code()))
    return f"stopped; resume from the last complete round with: {command}"


def time_left(config: Config, line: Mapping[str, Any]) -> str:
    """Say how long the rest of a stage takes at most, if every round takes as long as this one."""
    entry, seconds = algorithm(line["stage"]), float(line["seconds"])
    left = getattr(config, entry.cap) - line["round"]
    last = algorithm(config.algorithm)
    then = "" if last.name == entry.name else f", then {getattr(config, last.cap)} {last.unit}s"
    text = f"{entry.unit} {line['round']} took {seconds:.1f} s: at most {left} more take about "
    return f"{text}{spoken_time(left * seconds)}{then}; it ends sooner once nothing improves"


def progress_bar(config: Config) -> Any:
    """Return a callback that shows rounds, validation HF and the time left on standard error."""
    from fedgrain.runs.rounds import Callback
    from fedgrain.scoring.validation_score import describe

    class Bar(OneBar, Callback):
        stage = ""
        rounds, slowest = 0, 0.0

        def on_run_start(self, plan: Sequence[str]) -> None:
            print("\n".join(one_line(text, LONGEST) for text in plan), file=sys.stderr)

        def on_round_start(self, stage: str, number: int) -> None:
            if stage != self.stage:
                entry = algorithm(stage)
                self.show(stage, getattr(config, entry.cap), number - 1, entry.unit)
                self.stage = stage

        def on_round_end(self, line: dict[str, Any]) -> None:
            score = describe(line.get("validation"), line["validation_hf"])
            self.bar.set_postfix_str(score, refresh=False)
            self.bar.update()
            if self._tells(line["seconds"]):
                self._write(time_left(config, line))
            for fault in line["faults"]:
                self._write(f"{fault['client']}: {fault['fault']}")
            for again in line.get("retries", []):
                self._write(f"{again['of']}, again: {again['reason']}")

        def _tells(self, seconds: float) -> bool:
            """After the first round, which may start processes too, and a far quicker second."""
            self.rounds += 1
            before, self.slowest = self.slowest, max(self.slowest, seconds)
            return self.rounds == 1 or (self.rounds == 2 and seconds + 1 < before / 2)

        def _write(self, text: str) -> None:
            self.bar.write(one_line(text, LONGEST), file=sys.stderr)

    return Bar()
