"""Run a net over many images so that a sample's result does not depend on its batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_CHUNK = 32  # images a net sees at once in prediction, always
_SAMPLES = 2048  # most samples worked on at once
_ENTRIES = 2**22  # most entries of a table [samples, nodes] worked on at once


def samples_at_once(nodes: int) -> int:
    """Return how many samples to work on at once, so that tables of a large tree stay small.

    Whole chunks; a sample's result does not depend on it.
    """
    return max(_CHUNK, min(_SAMPLES, _ENTRIES // nodes // _CHUNK * _CHUNK))


@contextmanager
def evaluating(net: nn.Module) -> Iterator[None]:
    """Put the net in evaluation mode without gradients, and each module back afterwards."""
    training = [module for module in net.modules() if module.training]
    net.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def run_in_chunks(net: nn.Module, images: Tensor) -> Tensor:
    """Return the outputs [samples, outputs] for images [samples, ...], in evaluation mode.

    Convolutions and matrix products choose their order of summation by shape, so one image alone
    and the same image among others may differ in the last bits, and a near tie may then be decided
    otherwise (method, section 7). Here every call has the same shape and memory format: the last
    chunk is filled up with zeros.
    """
    shape = (_CHUNK, *images.shape[1:])
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    chunk = torch.empty(shape, dtype=images.dtype, device=images.device, memory_format=layout)
    outputs = []
    with evaluating(net):
        for start in range(0, max(len(images), 1), _CHUNK):
            part = images[start : start + _CHUNK]
            chunk[: len(part)] = part
            chunk[len(part) :] = 0
            outputs.append(net(chunk)[: len(part)].clone())
    return torch.cat(outputs)
