"""The arithmetic of torch and numpy; chosen before either is loaded.

Both choose their kernels by the CPU they find, and kernels differ in the order they add up: the
same seed then gives other last bits, and in the end other results. Two modes:

- ``native``: the fastest kernels of this CPU. The bits are those of one kind of CPU.
- ``portable``: the same kernels on every x86-64 CPU with AVX2, Intel's and AMD's, with and without
  AVX-512. What it costs: ``benchmarks/round.py``.

In both a row of a matrix product does not depend on its place among the others (``STRICT``, and
``COMPATIBLE``): by default MKL gives a row other last bits by its position, so a prediction would
depend on its batch. ``MKL_CBWR=AVX2`` would be faster, but is another arithmetic on Intel's CPUs
than on AMD's, and by itself not independent of the position on Intel's.

The libraries read environment variables when they are first used, so ``import fedgrain`` sets
these; processes it starts inherit them. Variables that the user has set stay as they are.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from fedgrain.errors import ConfigError

VARIABLE = "FEDGRAIN_ARITHMETIC"
DEFAULT = "native"  # portable costs more than 10 %: see docs/speed.md
SETTINGS = {
    "native": {"MKL_CBWR": "AUTO,STRICT"},
    "portable": {
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
        # AVX-512 by the name that numpy has for it since 2.4
        "NPY_DISABLE_CPU_FEATURES": "X86_V4",
    },
}
_READ_BY_NUMPY = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")
_NOTE = "_FEDGRAIN_ARITHMETIC_SET"  # what fedgrain set, so that a process it starts can tell
_NEEDS = "portable arithmetic needs an x86-64 CPU with AVX2, which this machine does not have"


class ArithmeticWarning(UserWarning):
    """A guarantee of fedgrain about equal bits does not hold in this process."""


class _Settled(NamedTuple):
    mode: str
    outside: dict[str, str]  # variables the user set otherwise
    late: tuple[str, ...]  # libraries that were loaded before theirs were set
    problem: str | None = None  # with what the user asked for


_settled = _Settled(DEFAULT, {}, ())


def settle() -> None:
    """Set the variables of the mode in ``FEDGRAIN_ARITHMETIC``, and warn of what does not hold."""
    global _settled
    wanted = os.environ.get(VARIABLE) or DEFAULT
    spoken = _NOTE in os.environ  # the process that started this one has warned already
    problem = None
    if wanted not in SETTINGS:
        problem = f"{VARIABLE} is {wanted!r}; choose one of {', '.join(SETTINGS)}, or unset it"
    elif wanted == "portable" and not _has_avx2():
        problem = f"{VARIABLE}=portable: {_NEEDS}; unset it or choose native"
    settled = _set_variables("native" if problem else wanted)
    explicit = bool(os.environ.get(VARIABLE))  # a default is not the user's choice
    _settled = settled._replace(problem=problem if explicit else None)
    if not spoken:
        for text in _what_does_not_hold(_settled):
            warnings.warn(text, ArithmeticWarning, stacklevel=3)


def prefer_portable() -> None:
    """Use portable arithmetic for published figures, unless the user chose or it is too late."""
    global _settled
    if os.environ.get(VARIABLE) or "torch" in sys.modules:
        return
    if not _has_avx2():
        warnings.warn(
            f"{_NEEDS}: figures may differ from published ones", ArithmeticWarning, stacklevel=2
        )
        return
    _settled = _set_variables("portable")
    os.environ[VARIABLE] = "portable"


def in_use() -> str:
    """Return "native" or "portable", and after a comma anything that deviates from it."""
    if _settled.problem is not None:
        raise ConfigError(_settled.problem)
    import torch

    but = [f"{name}={value}" for name, value in _settled.outside.items()]
    but += [f"set after {library} was loaded" for library in _settled.late]
    if _settled.mode == "portable":
        kernels = torch.backends.cpu.get_cpu_capability()
        but += [] if kernels == "AVX2" else [f"torch computes with {kernels}"]
        but += [] if torch._C.has_mkl else ["torch comes without MKL"]
    return ", but ".join([_settled.mode, *but])


def refusal(before: str) -> str | None:
    """Return why a run started in an arithmetic cannot continue in this process; None if it can."""
    now = in_use()
    if now == before:
        return None
    begun = before.split(", but ")[0]
    return (
        f"the run was started in {before} arithmetic and would continue in {now}, with bits that "
        f"match neither; set {VARIABLE}={begun} before Python starts, or choose a new folder"
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute in one thread: the sums come out the same on every machine size."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _set_variables(mode: str) -> _Settled:
    """Set the mode's variables unless the user has set them; unset those of another mode."""
    noted = [entry.partition("=") for entry in os.environ.get(_NOTE, "").split(";")]
    ours = {name: value for name, _, value in noted if os.environ.get(name) == value}
    settings, outside, late = SETTINGS[mode], {}, []
    for name in ours.keys() - settings.keys():
        del os.environ[name]
    for name, value in settings.items():
        found = os.environ.get(name)
        if found == value:
            continue
        if found is not None and name not in ours:
            outside[name] = found
            continue
        library = "numpy" if name in _READ_BY_NUMPY else "torch"
        if library in sys.modules and library not in late:
            late.append(library)
        os.environ[name] = ours[name] = value
    os.environ[_NOTE] = ";".join(f"{n}={v}" for n, v in ours.items() if n in settings)
    return _Settled(mode, outside, tuple(late))


def _what_does_not_hold(settled: _Settled) -> list[str]:
    problems = []
    for name, value in settled.outside.items():
        batches = name == "MKL_CBWR" and "STRICT" not in value and value != "COMPATIBLE"
        lost = "a prediction may depend on its batch, and " if batches else ""
        problems.append(
            f"{name}={value} was set outside fedgrain and stays: {lost}the bits are not those of "
            f"{settled.mode} arithmetic; unset it to get them"
        )
    if settled.late:
        values = SETTINGS[settled.mode].items()
        assignments = " ".join(f"{n}='{v}'" if " " in v else f"{n}={v}" for n, v in values)
        libraries = " and ".join(settled.late)
        lost = "a prediction may depend on its batch, and " if "torch" in settled.late else ""
        problems.append(
            f"fedgrain was imported after {libraries}: if it has already computed anything, "
            f"{lost}the bits are not those of {settled.mode} arithmetic; import fedgrain first, or "
            f"start Python with {assignments}"
        )
    return problems


@cache
def _has_avx2() -> bool:
    """Return whether this is an x86-64 CPU with AVX2, according to the kernel."""
    if os.uname().machine not in ("x86_64", "AMD64"):
        return False
    try:
        with open("/proc/cpuinfo") as lines:  # noqa: PTH123 - pathlib is not needed for --help
            flags = next((line for line in lines if line.startswith("flags")), "avx2")
    except OSError:  # not Linux: torch will find out
        return True
    return "avx2" in flags.split()
