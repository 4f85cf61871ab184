"""A site's release: its update, clipped and noised by Flower's own mod, and recorded.

All models of a message are one vector, clipped and noised together: a message is one release.
Flower's mod draws from numpy's global generator, which is seeded by the operating system for this
purpose: the server knows the run's seed, so noise derived from it would hide nothing. So here, and
only here, the same seed does not give the same bits.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, Metadata, RecordDict
from flwr.clientapp.mod import LocalDpMod
from numpy.typing import NDArray

from fedgrain.deployment.ledger import SiteLedger
from fedgrain.deployment.privacy import Privacy
from fedgrain.errors import DeploymentError
from fedgrain.federated.averaging import State
from fedgrain.messages.wire import Models

_Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Release:
    """How a site releases updates, and the ledger that records them."""

    privacy: Privacy
    ledger: SiteLedger

    def made(
        self, models: Models, trained: Models, run: str, round_number: int
    ) -> tuple[dict[int | None, State], int]:
        """Return noised states, and the number of releases in this run including this one."""
        update = np.concatenate([_way(models[branch], trained[branch]) for branch in models])
        noised = released(update, self.privacy)
        number = self.ledger.add(run, round_number, self.privacy)
        found, start = {}, 0
        for branch, state in models.items():
            found[branch], start = _moved(state, noised, start)
        return found, number


def released(update: _Vector, privacy: Privacy) -> _Vector:
    """Clip an update to the norm ``clip`` and noise it, by Flower's ``LocalDpMod``.

    An update that is not finite counts as zero: it must not be visible, not even as a failure. The
    computation is in float64 from an origin of zeros, so the norm is exact for weights of any size.
    """
    if not np.isfinite(update).all():
        update = np.zeros_like(update)
    if not update.any():
        update = np.full_like(update, 1e-100)  # the mod divides by the norm
    mod = LocalDpMod(
        clipping_norm=privacy.clip,
        sensitivity=privacy.noise_multiplier * privacy.clip,
        epsilon=math.sqrt(
            2 * math.log(1.25 / privacy.delta)
        ),  # makes the sensitivity its deviation
        delta=privacy.delta,
    )
    context: Any = None  # the mod only passes it on
    with _unpredictable():
        answer = mod(_message(np.zeros_like(update)), context, lambda *_: _message(update))
    if answer.has_error():
        raise DeploymentError(f"Flower's LocalDpMod failed: {answer.error.reason}")
    return np.asarray(answer.content.array_records["update"]["vector"].numpy(), np.float64)


@contextmanager
def _unpredictable() -> Iterator[None]:
    """Seed numpy's global generator from the operating system, so that nobody can predict it."""
    numpy_random: Any = np.random  # whose stubs lack these two
    before = numpy_random.get_bit_generator()
    numpy_random.set_bit_generator(np.random.Philox(key=secrets.randbits(128)))
    try:
        yield
    finally:
        numpy_random.set_bit_generator(before)


def _message(vector: _Vector) -> Message:
    """Return a vector as the mod takes it; the message goes nowhere, so all about it is made up.

    Without metadata Flower asks its own process who it is, and a site's worker is not one.
    """
    content = RecordDict({"update": ArrayRecord({"vector": Array(vector)})})
    about = Metadata(
        run_id=1,
        message_id="",
        src_node_id=1,
        dst_node_id=1,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=60.0,
        message_type="train",
    )
    made: Any = Message  # whose types leave out what Flower itself uses
    message: Message = made(content=content, metadata=about)
    return message


def _floats(state: Mapping[str, torch.Tensor]) -> list[str]:
    return [name for name, value in state.items() if value.is_floating_point()]


def _way(start: State, end: State) -> _Vector:
    """Return how far all floats of a state moved, as one vector [weights]."""
    ways = [(end[name].double() - start[name].double()).ravel() for name in _floats(start)]
    return np.asarray(torch.cat(ways).numpy())


def _moved(state: State, noised: _Vector, start: int) -> tuple[State, int]:
    """Return a state moved by its part of the vector, and where the next part begins.

    Noise may make the running variance of a BatchNorm negative; it is clamped at zero.
    """
    found = dict(state)
    for name in _floats(state):
        value, end = state[name], start + state[name].numel()
        way = torch.from_numpy(noised[start:end].reshape(tuple(value.shape)))
        moved = (value.double() + way).to(value.dtype)
        found[name] = moved.clamp_min(0) if name.endswith("running_var") else moved
        start = end
    return found, start
