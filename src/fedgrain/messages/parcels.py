"""A message in few parts: all its arrays are one, with an index of what is where.

Flower 1.41 sends two requests for every array, and at each of four stations: server, SuperLink,
SuperNode, and the process of the message. A cycle of FedBDFT has hundreds of arrays. As a parcel
it has one. Sites with the same weights to train share it, since the index lies beside it.
Nothing here needs numpy or torch: arrays pass through as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedgrain.errors import DeploymentError

_INDEX, _ARRAYS = "parcel", "parcel arrays"


class ParcelError(DeploymentError):
    """A parcel whose index does not describe what is in it."""


def parcel_of(content: RecordDict) -> RecordDict:
    """Return a content as a parcel."""
    rows, arrays = described(content)
    found = RecordDict({_INDEX: ConfigRecord({"index": json.dumps(rows)})})
    if arrays:
        data = b"".join(arrays)
        found[_ARRAYS] = ArrayRecord({"all": Array("uint8", (len(data),), "bytes", data)})
    return found


def content_of(parcel: RecordDict) -> RecordDict:
    """Return the content of a parcel; anything else comes back as it is."""
    if _INDEX not in parcel.config_records:
        return parcel
    try:
        rows = json.loads(str(parcel.config_records[_INDEX]["index"]))
        record = parcel.array_records.get(_ARRAYS)
        data = memoryview(record["all"].data if record is not None else b"")
        check_rows(rows, len(data))
        start = 0

        def take(size: int) -> bytes:
            nonlocal start
            start += size
            return bytes(data[start - size : start])

        return restored(rows, take)
    except ParcelError:
        raise
    except Exception as error:  # it may come from anybody: whatever is wrong, it is not a parcel
        raise ParcelError(f"not a parcel ({type(error).__name__})") from None


def described(content: RecordDict) -> tuple[list[list[Any]], list[bytes]]:
    """Return what a content holds, as JSON can, and the bytes of its arrays in this order."""
    rows: list[list[Any]] = []
    arrays: list[bytes] = []
    for key, record in content.items():
        if isinstance(record, ArrayRecord):
            arrays += [array.data for array in record.values()]
            told = {
                name: [array.dtype, list(array.shape), array.stype, len(array.data)]
                for name, array in record.items()
            }
            rows.append([key, "arrays", told])
        else:
            kind = "metrics" if isinstance(record, MetricRecord) else "configs"
            rows.append([key, kind, dict(record)])
    return rows, arrays


def check_rows(rows: Any, size: int) -> None:
    """Refuse a description whose arrays have not just so many bytes; nothing is read before."""
    sizes = [row[3] for _, kind, told in rows if kind == "arrays" for row in told.values()]
    if not all(type(one) is int and one >= 0 for one in sizes) or sum(sizes) != size:
        raise ParcelError("its arrays are not as long as it says")


def restored(rows: list[list[Any]], take: Callable[[int], bytes]) -> RecordDict:
    """Return the content that was described; ``take`` gives the next bytes of the arrays."""
    content = RecordDict()
    for key, kind, told in rows:
        if kind == "arrays":
            content[key] = ArrayRecord(
                {
                    name: Array(dtype, tuple(shape), stype, take(size))
                    for name, (dtype, shape, stype, size) in told.items()
                }
            )
        else:
            content[key] = MetricRecord(told) if kind == "metrics" else ConfigRecord(told)
    return content
