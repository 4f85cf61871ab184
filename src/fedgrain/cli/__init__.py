"""The command line: parses, calls, prints. Heavy imports wait until a command runs."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fedgrain.cli import (
    benchmark,
    calibrate,
    data,
    export,
    importing,
    knowledge,
    predict,
    refine,
    report,
    run,
    study,
    table,
    taxonomy,
)
from fedgrain.errors import FedgrainError
from fedgrain.flower_commands import flower
from fedgrain.terminal.arguments import from_home
from fedgrain.text import one_line
from fedgrain.version import __version__

__all__ = ["build_parser", "main"]

LONGEST = 5000  # characters of a message
COMMANDS = (
    taxonomy, knowledge, importing, data, run, predict, calibrate, refine, export, study, table,
    benchmark, report, flower,
)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence, and in whose paths ``~`` is one's home."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)  # the command's own parser, where there is one
        for text in (None, str):  # None: an argument without a type
            self.register("type", text, from_home)
        self.register("type", Path, lambda text: Path(from_home(text)))

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to look, and exit with 2."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every command."""
    parser = Parser(
        prog="fedgrain",
        description="Federated image classification where every site labels at its own level of "
        "detail: one writes bird, another kite, a third Brahminy kite.",
        epilog="Every command explains itself: fedgrain COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"fedgrain {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; bad input gives one sentence on standard error and exit code 2."""
    args, unknown = build_parser().parse_known_args(arguments)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _warner()
            return args.run(args) or 0  # a command may end with a code of its own
    except FedgrainError as error:
        return _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has closed it: nothing to report
        return 0
    except OSError as error:
        return _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("fedgrain: stopped", file=sys.stderr)
        return 130


def _warner() -> Callable[..., None]:
    """Return what writes a warning as one line, without the place in our code, each text once."""
    said: set[str] = set()

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        text = one_line(message, LONGEST)
        if text not in said:
            said.add(text)
            print(f"fedgrain: warning: {text}", file=sys.stderr)

    return warn


def _fail(message: str) -> int:
    print(f"fedgrain: error: {one_line(message, LONGEST)}", file=sys.stderr)
    return 2
