"""A message in few parts: what is in it comes back the same, and a damaged one costs one site."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.task_identity import TaskIdentity

from fedgrain.federated.faults import Fault, Kind
from fedgrain.messages.asking import ask
from fedgrain.messages.fingerprints import fingerprint
from fedgrain.messages.parcels import ParcelError, content_of, parcel_of
from flower_wire import Wire


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def content(client: int = 0) -> RecordDict:
    rng = np.random.default_rng(3)
    return RecordDict({
        "about": ConfigRecord({"round": 2, "what": "hf", "client": client}),
        **{f"branch {e}": ArrayRecord({f"w{i}": Array(rng.normal(size=(e, i)).astype("f4"))
                                       for i in range(4)}) for e in range(5)},
        "branch 1 told": MetricRecord({"update": [3.0, math.nan, 1e-300], "samples": 3}),
    })  # fmt: skip


def test_a_content_comes_back_as_it_was() -> None:
    before = content()
    after = content_of(parcel_of(before))
    assert list(after) == list(before)
    assert fingerprint(after) == fingerprint(before)
    assert {k: dict(r) for k, r in after.array_records.items()} == {
        k: dict(r) for k, r in before.array_records.items()
    }
    told = after.metric_records["branch 1 told"]
    assert math.isnan(told["update"][1]) and told["update"][::2] == [3.0, 1e-300]
    assert isinstance(told["samples"], int)
    assert content_of(before) is before  # what is no parcel stays
    assert dict(content_of(parcel_of(RecordDict()))) == {}


def test_it_has_six_parts_and_sites_share_those_of_the_arrays() -> None:
    messages = [Message(parcel_of(content(client)), 7, "train") for client in range(2)]
    parts = [set(get_all_nested_objects(message)) for message in messages]
    assert [len(found) for found in parts] == [6, 6]  # 53 if every array were sent by itself
    assert len(parts[0] & parts[1]) == 3  # the record, its one array, and its bytes
    assert len(get_all_nested_objects(Message(content(), 7, "train"))) > 40


def index(rows: Any, data: bytes = b"12345678") -> RecordDict:
    text = rows if isinstance(rows, str) else json.dumps(rows)
    return RecordDict({
        "parcel": ConfigRecord({"index": text}),
        "parcel arrays": ArrayRecord({"all": Array("uint8", (len(data),), "bytes", data)}),
    })  # fmt: skip


def arrays(*sizes: Any, shape: Any = (2,)) -> list[Any]:
    rows = {f"w{n}": ["f4", shape, "numpy.ndarray", size] for n, size in enumerate(sizes)}
    return ["whole", "arrays", rows]


DAMAGED = {
    "too short": index([arrays(7)]),
    "too long": index([arrays(9)]),
    "a second array before the first": index([arrays(16, -8)]),
    "a length that is no number": index([arrays(8.0)]),
    "true as a length": index([arrays(7, True)]),
    "no JSON": index("{"),
    "too deep": index("[" * 200_000),
    "another form": index({"a": 1}),
    "rows too short": index([["whole", "arrays"]]),
    "no shape": index([arrays(8, shape=None)]),
    "a record that cannot be": index([["x", "metrics", {"a": "text"}], arrays(8)]),
    "a name that is none": index([[3, "configs", {}], arrays(8)]),
    "a huge number": index("[" + "9" * 5000 + "]"),
    "no index": RecordDict({"parcel": ConfigRecord({"other": 1})}),
    "no arrays": RecordDict({"parcel": ConfigRecord({"index": json.dumps([arrays(8)])})}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_no_parcel_is_refused(name: str) -> None:
    with pytest.raises(ParcelError):
        content_of(DAMAGED[name])


def test_a_damaged_parcel_costs_only_its_site() -> None:
    good = RecordDict({"scores": MetricRecord({"hf": [0.5, 3.0]})})
    wire: Any = Wire({1: lambda _: DAMAGED["too long"], 2: lambda _: parcel_of(good)})
    asked = ask(wire, {1: RecordDict(), 2: RecordDict()}, "evaluate", 5.0)
    bad, fine = asked.answers[1], asked.answers[2]
    assert isinstance(bad, Fault) and bad.kind == Kind.UNREADABLE
    assert "its arrays are not as long as it says" in bad.reason
    assert isinstance(fine, Message) and fine.content == good
