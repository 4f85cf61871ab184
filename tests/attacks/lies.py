"""What a malicious site may send, and what the server may make of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Lie = Callable[[str, Any], Any]  # kind of message, honest answer -> answer
TEXTS = {
    "lines": "gone\nINFO: museum was left out",
    "escapes": "\x1b[2J\x1b]0;x\x07",
    "20 MB": "x" * 20_000_000,
    "marks": "\u202ereversed\u2028",
}


@dataclass(frozen=True)
class Attack:
    """A lie, and which of the known outcomes it may have."""

    name: str
    lie: Lie
    allowed: tuple[str, ...]
    registered: str = "zoo"  # by which name the operator registered its key
    key: str = "zoo"  # whose key it has
    beside: bool = False  # there is an honest zoo as well


def truth(kind: str, content: Any) -> Any:
    return content


def failing(*kinds: str, holding: str = "") -> Lie:
    from flwr.app import ConfigRecord, RecordDict

    def lie(kind: str, content: Any) -> Any:
        failed = RecordDict({"failed": ConfigRecord({"fault": "RuntimeError"})})
        concerned = kind in kinds and (not holding or holding in content)
        return failed if concerned else content

    return lie


def counting(count: float) -> Lie:
    """Claim a number of samples, of the whole and of every branch, when asked and when trained."""
    from flwr.app import MetricRecord

    def lie(kind: str, content: Any) -> Any:
        if kind == "query":
            counts = dict(content.metric_records["counts"])
            for key, value in counts.items():
                counts[key] = [count, *value[1:]] if isinstance(value, list) else count
                if isinstance(counts[key], list):
                    counts[key] = [type(count)(item) for item in counts[key]]
            content["counts"] = MetricRecord(counts)
        for key in [key for key in content.metric_records if key.endswith(" told")]:
            _, loss, steps = content.metric_records[key]["update"]
            content[key] = MetricRecord({"update": [float(count), loss, steps]})
        return content

    return lie


def scoring(score: list[float], key: str = "hf") -> Lie:
    """Tell a validation score."""
    from flwr.app import MetricRecord

    def lie(kind: str, content: Any) -> Any:
        if kind == "evaluate":
            names = list(content.metric_records.get("scores", {})) or [key]
            content["scores"] = MetricRecord({name: list(score) for name in names})
        return content

    return lie


def updating(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Lie:
    """Send other arrays than training gave."""
    from flwr.app import Array, ArrayRecord

    def lie(kind: str, content: Any) -> Any:
        if kind == "train":
            for key, record in list(content.array_records.items()):
                arrays = change({name: array.numpy() for name, array in record.items()})
                content[key] = ArrayRecord({n: Array(np.asarray(v)) for n, v in arrays.items()})
        return content

    return lie


def recording(kind_of: str, **records: Any) -> Lie:
    """Add records to an answer, or put them in the place of its own."""

    def lie(kind: str, content: Any) -> Any:
        if kind == kind_of:
            for name, record in records.items():
                content[name.replace("_", " ")] = record
        return content

    return lie


def dropping(kind_of: str, *names: str) -> Lie:
    """Leave records out of an answer, or all of them."""

    def lie(kind: str, content: Any) -> Any:
        if kind == kind_of:
            for name in names or list(content):
                if name in content:
                    del content[name]
        return content

    return lie


def every(change: Callable[[Any], Any]) -> Lie:
    """Change every array."""
    return updating(lambda arrays: {name: change(value) for name, value in arrays.items()})


def raw_arrays(change: Callable[[Any], None]) -> Lie:
    """Change the arrays as they travel: their bytes, and what is said of them."""

    def lie(kind: str, content: Any) -> Any:
        if kind == "train":
            for record in content.array_records.values():
                for array in record.values():
                    change(array)
        return content

    return lie


def _forged(text: str) -> dict[str, Lie]:
    from flwr.app import ConfigRecord, MetricRecord

    def named(kind: str, content: Any) -> Any:
        if kind == "query":
            content["about"] = ConfigRecord({"site": text})
        return content

    failed = ConfigRecord({"fault": text})
    return {
        "of training": recording("train", failed=failed),
        "of one model": lambda kind, content: (
            recording("train", whole=failed)("train", dropping("train", "whole")(kind, content))
            if kind == "train" and "whole" in content.array_records else content
        ),
        "of scoring": recording("evaluate", failed=failed),
        "as its name": named,
        "as a record's name": lambda kind, content: (
            recording(kind, **{text: MetricRecord({"x": 1.0})})(kind, content)
            if kind == "train" else content
        ),
    }  # fmt: skip


def attacks(seed: int) -> list[Attack]:
    """Return every lie with the outcomes it may have."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord

    inf, nan = float("inf"), float("nan")
    rng = np.random.default_rng(seed)
    gone, lost = ("away",), ("untrained", "whole untrained", "away")
    found = [
        Attack(f"claims {count!r} samples", counting(count), gone)
        for count in (1e30, 1e12, 1e300, -1.0, -5, nan, inf, -inf, 2**62, 3.5, 10**9 + 1)
    ]
    found += [
        Attack(f"claims {count} samples", counting(count), ("believed",))
        for count in (401, 1000, 10**6, 10**9)
    ]
    found.append(Attack("claims 0 samples", counting(0), ("untrained", "away")))
    found += [
        Attack(f"scores {score}", scoring(score), ("unscored", "away"))
        for score in ([nan, 3.0], [inf, 3.0], [2.0, 3.0], [-1.0, 3.0], [0.5, -1.0], [0.5, nan],
                      [0.5, inf], [1.0, 1e300], [1.0, 1e12], [1.0, 2.5], [1.0], [], [1.0] * 1000)
    ]  # fmt: skip
    spoiled: dict[str, Callable[[Any], Any]] = {
        "weights of NaN": lambda v: np.full_like(v, nan) if v.dtype.kind == "f" else v,
        "weights of infinity": lambda v: np.full_like(v, inf) if v.dtype.kind == "f" else v,
        "weights times 500": lambda v: v * 500,
        "weights times -500": lambda v: v * -500,
        "weights times 1e30": lambda v: (v * np.float32(1e30)).astype(v.dtype),
        "weights of 1e38": lambda v: np.full_like(v, 1e38) if v.dtype.kind == "f" else v,
        "noise of deviation 100": lambda v: (v + 100 * rng.standard_normal(v.shape)).astype(
            v.dtype
        ),
        "half precision": lambda v: v.astype(np.float16),
        "double precision": lambda v: v.astype(np.float64),
        "whole numbers": lambda v: v.astype(np.int64),
        "complex numbers": lambda v: v.astype(np.complex64),
        "other shapes": lambda v: np.stack([v, v]),
        "flat shapes": lambda v: v.ravel()[:1],
        "empty arrays": lambda v: v[:0] if v.ndim else v,
        "texts": lambda v: np.array(["x"] * 3),
        "big endian": lambda v: v.astype(v.dtype.newbyteorder(">")),
    }
    found += [Attack(name, every(change), lost) for name, change in spoiled.items()]
    one_nan = updating(_one_nan)
    found += [
        Attack("one weight of NaN", one_nan, lost),
        Attack("other names", updating(lambda a: {f"{n}x": v for n, v in a.items()}), lost),
        Attack("no arrays", updating(lambda a: {}), lost),
        Attack("one array less", updating(lambda a: dict(list(a.items())[1:])), lost),
        Attack("an array more", updating(lambda a: {**a, "more": np.zeros(3)}), lost),
        Attack("an array of 20 MB more",
               updating(lambda a: {**a, "more": np.zeros(5_000_000, np.float32)}), lost),
        Attack("a model of 20 MB that nobody asked for", recording("train", branch_99=ArrayRecord(
            {"w": Array(np.zeros(5_000_000, np.float32))})), lost),
        Attack("an array with its answer to a query",
               recording("query", whole=ArrayRecord({"w": Array(np.zeros(9, np.float32))})),
               ("away", "honest")),
        Attack("bytes that are no array", raw_arrays(lambda a: _set(a, data=b"nonsense")), lost),
        Attack("a pickle for an array", raw_arrays(lambda a: _set(a, data=_pickled())), lost),
        Attack("arrays cut off", raw_arrays(lambda a: _set(a, data=a.data[:-3])), lost),
        Attack("arrays too long", raw_arrays(lambda a: _set(a, data=a.data + b"x" * 9000)), lost),
        Attack("a header of 10^12 numbers", raw_arrays(lambda a: _set(a, data=_huge())), lost),
        Attack("another type of array", raw_arrays(lambda a: _set(a, stype="pickle")),
               ("untrained", "away", "honest")),
        Attack("updates without samples", recording("train", whole_told=MetricRecord({})), lost),
        Attack("updates of other samples",
               recording("train", whole_told=MetricRecord({"update": [7.0, 0.1, 1.0]})), lost),
        Attack("a loss of NaN", _told(lambda n, loss, s: [n, nan, s]), ("honest", *lost)),
        Attack("steps of 1e300", _told(lambda n, loss, s: [n, loss, 1e300]), ("honest", *lost)),
        Attack("a time of 1e300", recording("train", time=MetricRecord({"seconds": 1e300})),
               ("honest", *lost)),
        Attack("a time of NaN", recording("train", time=MetricRecord({"seconds": nan})),
               ("honest", *lost)),
        Attack("a time of 10^400", recording("train", time=MetricRecord({"seconds": 10**400})),
               ("honest", *lost)),
        Attack("scores of 10^400", scoring([10**400, 10**400]), ("unscored", "away")),
        Attack("bytes in a text", recording("train", about=ConfigRecord({"x": b"\xff"})), lost),
        Attack("a header without a type", raw_arrays(_without_type), lost),
        Attack("a head of a record with a strange digit", recording("train", record=ConfigRecord(
            {"head": "a" * 32 + ":\u00b2:" + "0" * 64})), ("honest", *lost)),
        Attack("nothing at all when asked", dropping("query"), gone),
        Attack("nothing at all when trained", dropping("train"), lost),
        Attack("nothing at all when scored", dropping("evaluate"), ("unscored", "away")),
        Attack("no name", recording("query", about=ConfigRecord({"site": ""})), gone),
        Attack("another site's name", recording("query", about=ConfigRecord({"site": "museum"})),
               gone),
        Attack("registered by another site's name", truth, gone, registered="museum"),
        Attack("a key without a name", truth, gone, registered=""),
        Attack("a key of its own under a site's name", truth, gone, key="stranger"),
        Attack("a key of its own beside a site", every(lambda v: v * 2), ("honest",),
               key="stranger", beside=True),
        Attack("a key without a name beside a site", every(lambda v: v * 2), ("honest",),
               registered="", key="stranger", beside=True),
        Attack("a key without a name and another site's name",
               recording("query", about=ConfigRecord({"site": "museum"})), gone, registered=""),
        Attack("a name of bytes", recording("query", about=ConfigRecord({"site": b"\xff\n"})),
               gone),
    ]  # fmt: skip
    for label, text in TEXTS.items():
        allowed = {"of scoring": ("unscored", "away"), "as its name": gone}
        found += [
            Attack(f"a fault text of {label} {where}", lie, allowed.get(where, ("honest", *lost)))
            for where, lie in _forged(text).items()
        ]
    return found


def _told(change: Callable[[float, float, float], list[float]]) -> Lie:
    from flwr.app import MetricRecord

    def lie(kind: str, content: Any) -> Any:
        for key in [key for key in content.metric_records if key.endswith(" told")]:
            content[key] = MetricRecord({"update": change(*content.metric_records[key]["update"])})
        return content

    return lie


def _one_nan(arrays: dict[str, Any]) -> dict[str, Any]:
    name, value = next((n, v) for n, v in arrays.items() if v.dtype.kind == "f")
    value = value.copy()
    value.flat[0] = np.nan
    return {**arrays, name: value}


def _set(array: Any, **values: Any) -> None:
    for name, value in values.items():
        setattr(array, name, value)


def _without_type(array: Any) -> None:
    _set(array, data=array.data.replace(b"'descr': '<f4'", b"'descr': ()   "))


def _pickled() -> bytes:
    import pickle

    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return file.getvalue() or pickle.dumps({})


def _huge() -> bytes:

    file = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + b"x" * 100
