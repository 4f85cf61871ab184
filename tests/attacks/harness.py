"""What every attack shares: tries in processes of their own, judged and counted.

An attack is a list of cases. A case does one bad thing to fedgrain and raises
:class:`WrongError` if fedgrain then gives another result, hangs, or says something other than one
sentence, and :class:`CrashedError` if a traceback shows. How cases are run is in workers.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CASE_SECONDS = 60  # a case that takes longer hangs
LONGEST_SENTENCE = 6000
SENTENCE = re.compile(r"fedgrain[a-z -]*: error: \S.*")


class WrongError(Exception):
    """Another result, a hang, or an error that is not one sentence."""


class CrashedError(Exception):
    """A traceback, or a process that a signal ended."""


class TimeUp(BaseException):
    """A case took too long."""


@dataclass(frozen=True)
class Case:
    """One try; ``attempt`` gets an empty scratch folder."""

    name: str
    attempt: Callable[[Path], None]


@dataclass(frozen=True)
class Told:
    """What a command gave: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    def judged(self) -> Told:
        """Return it if it is good: done, refused in one sentence, or 3: what is left is listed."""
        if "Traceback (most recent call last)" in self.err:
            raise CrashedError(self.err.strip().splitlines()[-1])
        if self.code < 0:
            raise CrashedError(f"ended by {signal.Signals(-self.code).name}")
        left = any(text in self.err for text in ("could not be read", "have no node"))
        listed = self.code == 3 and left and len(self.err) < 5000
        if self.code not in (0, 2) and not listed:
            raise WrongError(f"exit code {self.code}: {self.err[-300:]!r}")
        if self.code == 2:
            check_sentence(self.err)
        return self


def check_sentence(err: str) -> None:
    """Check that an error is told in one line, printable and short, and nothing after it."""
    lines = err.rstrip("\n").split("\n")
    errors = [line for line in lines if SENTENCE.match(line.rpartition("\r")[2])]
    if len(errors) != 1 or lines[-1] != errors[0]:
        raise WrongError(f"not one sentence: {err[-300:]!r}")
    text = errors[0].rpartition("\r")[2]
    if not text.isprintable() or len(text) > LONGEST_SENTENCE:
        raise WrongError(f"a sentence of {len(text)} signs, printable: {text.isprintable()}")


def called(function: Callable[[], object]) -> Told:
    """Call something in this process with what it prints captured; an exception is a traceback."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            returned = function()
            code = returned if isinstance(returned, int) else 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except TimeUp:
            raise
        except BaseException:
            traceback.print_exc()
            code = 70
    return Told(code, out.getvalue(), err.getvalue())


def fedgrain(*arguments: object) -> Told:
    """Run a command in this process."""
    return called(lambda: command(*arguments))


def as_command(function: Callable[[], object]) -> int:
    """Call a part of fedgrain, and tell of bad input as the command line does."""
    from fedgrain.cli import _fail
    from fedgrain.errors import FedgrainError

    try:
        function()
    except FedgrainError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or 'a file'}: {error.strerror}")
    return 0


def alone(function: Callable[[], object], seconds: float = CASE_SECONDS) -> Told:
    """Call something in a forked process, which may be killed without harm to this one."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = os.fork()
        if process == 0:
            code = 70
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                told = called(function)
                code = told.code
                out.write(told.out.encode(errors="surrogatepass"))
                err.write(told.err.encode(errors="surrogatepass"))
                out.flush(), err.flush()
            finally:
                os._exit(code & 0xFF)
        status = _waited(process, seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Told(os.waitstatus_to_exitcode(status), *texts)


def fedgrain_alone(*arguments: object, seconds: float = CASE_SECONDS) -> Told:
    """Run a command in a forked process."""
    return alone(lambda: command(*arguments), seconds)


def command(*arguments: object) -> int:
    """Call the command line and return its exit code."""
    from fedgrain.cli import main

    return main([str(argument) for argument in arguments])


def _waited(process: int, seconds: float) -> int:
    handle = os.pidfd_open(process)
    try:
        ready, _, _ = select.select([handle], [], [], seconds)
        if not ready:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise WrongError(f"it hangs: no end after {seconds:g} seconds")
    except BaseException:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        raise
    finally:
        os.close(handle)
    return os.waitpid(process, 0)[1]
