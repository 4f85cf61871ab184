"""Messages between the engine and its workers: pickles between our own processes.

Tensors go as NumPy arrays, which pickle as a block of memory; torch would make an archive of each.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import Tensor


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return torch.from_numpy, (obj.detach().cpu().numpy(),)
        return NotImplemented


def packed(content: Any) -> bytes:
    """Return the bytes to send."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(content)
    return buffer.getvalue()


def unpacked(message: bytes) -> Any:
    """Return what was sent; only ever called on messages of our own processes."""
    return pickle.loads(message)  # noqa: S301
