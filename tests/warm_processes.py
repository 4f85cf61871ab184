"""Processes of their own that need not load torch again: forks of one that has only loaded it.

A test that starts ``fedgrain`` forty times would load torch forty times, two seconds each. Here
one process per session loads it and waits; every call forks it. The fork has its own arguments,
environment, folder, output and exit code, and can be killed. Only what is decided when torch or
numpy is loaded cannot differ between calls: a call that changes such a variable is a new process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

# read when Python, torch or numpy starts
READ_ONCE = ("ATEN", "FEDGRAIN_ARITHMETIC", "MKL", "NPY", "OMP", "ONEDNN", "OPENBLAS", "PYTHONHASH")
LOADED = ("fedgrain.cli", "fedgrain.runs.run", "fedgrain.folders.folder")
LOADED_FOR = {"flower": ("fedgrain.sites.site", "fedgrain.oversight.check")}


class WarmProcesses:
    """One process that waits with torch loaded, and forks for every call."""

    def __init__(self) -> None:
        self._waiting: subprocess.Popen[str] | None = None
        self._aside = tempfile.TemporaryDirectory(prefix="fedgrain-warm-")

    def __enter__(self) -> WarmProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._waiting is not None:
            self._waiting.communicate()  # it ends with its input
        self._aside.cleanup()

    def fedgrain(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command ``fedgrain``."""
        words = list(map(str, arguments))
        load = LOADED_FOR.get(words[0], ()) if words else ()
        return self._run(["-m", "fedgrain.cli", *words], environment, load)

    def python(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python with a script: ``-c CODE``, ``-m MODULE`` or a file, and its arguments."""
        return self._run(list(map(str, arguments)), environment, ())

    def _run(
        self, words: list[str], changes: dict[str, str], load: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **changes}
        if any(name.startswith(READ_ONCE) for name in changes):
            return subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, env=environment
            )
        if self._waiting is None:
            self._waiting = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._waiting.stdin is not None and self._waiting.stdout is not None
        printed, errors = (Path(self._aside.name, name) for name in ("out", "err"))
        job = {"words": words, "environment": environment, "folder": str(Path.cwd()),
               "out": str(printed), "err": str(errors), "load": load}  # fmt: skip
        self._waiting.stdin.write(json.dumps(job) + "\n")
        self._waiting.stdin.flush()
        code = int(self._waiting.stdout.readline())
        return subprocess.CompletedProcess(
            words, code, printed.read_text("utf-8"), errors.read_text("utf-8")
        )


def wait() -> None:
    """Fork for every job that comes; in a fork, do the job and return."""
    for module in LOADED:
        importlib.import_module(module)
    importlib.import_module("fedgrain.taxonomy.wordnet").wordnet()  # a table that never changes
    for line in sys.stdin:
        job = json.loads(line)
        for module in job["load"]:
            with contextlib.suppress(ImportError):  # the command says what is not installed
                importlib.import_module(module)
        gc.freeze()
        child = os.fork()
        if not child:
            become(job)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(job: dict[str, Any]) -> None:
    """Take over what the job says, and run it as Python would."""
    for number, name in ((1, job["out"]), (2, job["err"])):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    first, *rest = job["words"]
    own = {"-m": [], "-c": [""]}.get(first, [str(Path(first).parent)])
    sys.path[0:1] = [*own, *paths]
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    wait()
