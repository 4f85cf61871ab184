"""A message between two processes of one site: JSON, then the bytes of its arrays. No pickles.

A frame is two lengths, a JSON header and the arrays in the header's order. Both lengths are checked
before anything is read. Nothing here needs numpy or torch: arrays pass through as bytes.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

from flwr.app import RecordDict

from fedgrain.messages.parcels import ParcelError, check_rows, described, restored

_LENGTHS = struct.Struct(">QQ")
_MOST_HEADER = 64 * 2**20  # bytes: names, counts and settings
_MOST_ARRAYS = 16 * 2**30


class FrameError(ConnectionError):
    """The other process went away in the middle of a frame, or sent none."""


def send(connection: socket.socket, about: Mapping[str, Any], content: RecordDict) -> None:
    """Send a content with what it is about."""
    records, arrays = described(content)
    header = json.dumps({"about": dict(about), "records": records}).encode()
    connection.sendall(_LENGTHS.pack(len(header), sum(map(len, arrays))) + header)
    for data in arrays:
        connection.sendall(data)


def receive(connection: socket.socket) -> tuple[dict[str, Any], RecordDict]:
    """Return what a frame is about, and its content."""
    length, more = _LENGTHS.unpack(_exactly(connection, _LENGTHS.size))
    if length > _MOST_HEADER or more > _MOST_ARRAYS:
        raise FrameError(f"a frame of {length} and {more} bytes is too long")
    try:
        header = json.loads(bytes(_exactly(connection, length)))
        about, records = dict(header["about"]), list(header["records"])
        check_rows(records, more)
    except (ParcelError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise FrameError(f"not a frame ({type(error).__name__})") from None
    return about, restored(records, lambda size: bytes(_exactly(connection, size)))


def _exactly(connection: socket.socket, size: int) -> bytearray:
    """Read so many bytes; a connection that ends before is an error."""
    found = bytearray(size)
    view, start = memoryview(found), 0
    while start < size:
        count = connection.recv_into(view[start:])
        if not count:
            raise FrameError("the connection ended in the middle of a frame")
        start += count
    return found
