"""Try a user's head before training: what it does not keep would otherwise show as a bad score."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgrain.catalogue import SUPERVISIONS
from fedgrain.errors import HeadError
from fedgrain.heads.base import Head
from fedgrain.nets.dropout import global_state
from fedgrain.plugins import explained_errors
from fedgrain.randomness import numpy_generator

_SAMPLES = 4
_MOST_LABELS = 32
_NEAR = 1e-3  # of probabilities that should be equal


def check_promises(spec: str, head: Head) -> None:
    """Refuse a head that breaks what :class:`~fedgrain.heads.Head` promises, and say how."""
    if not isinstance(head.num_outputs, int) or head.num_outputs < 1:
        raise _broken(spec, f"num_outputs is {head.num_outputs!r}, but must be at least 1")
    strange = [name for name in head.supervisions if name not in SUPERVISIONS]
    if strange:
        known = ", ".join(SUPERVISIONS)
        raise _broken(spec, f"there is no supervision {strange[0]!r}; there are {known}")
    drawn = numpy_generator(0, "promises of a head").standard_normal((_SAMPLES, head.num_outputs))
    logits = torch.from_numpy(drawn.astype(np.float32))
    with global_state(0), explained_errors(spec, "head", HeadError):
        _check_probabilities(spec, head, logits)
        _check_losses(spec, head, logits)


def _check_probabilities(spec: str, head: Head, logits: Tensor) -> None:
    tree = head.taxonomy
    with torch.no_grad():
        found = head.node_log_probs(logits)
        alone = head.node_log_probs(logits[:1])
    _check_tensor(spec, "node_log_probs", found, (_SAMPLES, len(tree)))
    if found.isnan().any():
        raise _broken(spec, "node_log_probs has values that are not numbers (nan)")
    chance = found.double().exp().numpy()
    if not np.allclose(chance[:1], alone.double().exp().numpy(), atol=_NEAR):
        raise _broken(
            spec, "node_log_probs of a sample depends on the other samples; sum over dimension 1"
        )
    if (off := float(np.abs(chance[:, 0] - 1).max())) > _NEAR:
        raise _broken(
            spec, f"the root has probability {chance[0, 0]:.3f}, not 1 (off by {off:.3f}); every "
            "image is something in the tree"
        )  # fmt: skip
    above = chance[:, 1:] - chance[:, tree.parents[1:]]
    if above.size and above.max() > _NEAR:
        node = int(above.max(axis=0).argmax()) + 1
        raise _broken(
            spec, f"{tree.names[node]!r} is likelier than its parent "
            f"{tree.names[int(tree.parents[node])]!r}; a parent holds what is below it"
        )  # fmt: skip
    total = chance[:, tree.leaves].sum(axis=1)
    if "projection" in head.supervisions and np.abs(total - 1).max() > _NEAR:
        raise _broken(
            spec, f"the probabilities of the leaves sum up to {total[0]:.3f}, not to 1, as "
            "supervision projection needs"
        )  # fmt: skip


def _check_losses(spec: str, head: Head, logits: Tensor) -> None:
    """Try the paper's loss on labels at every depth."""
    tree = head.taxonomy
    count = min(_MOST_LABELS, len(tree))
    chosen = np.linspace(0, len(tree) - 1, count).round().astype(np.int64)
    given = logits[torch.arange(count) % _SAMPLES].clone().requires_grad_()
    losses = head.sample_losses(given, torch.from_numpy(chosen))
    _check_tensor(spec, "sample_losses", losses, (count,))
    finite = losses.isfinite()
    if not finite.all():
        node = tree.names[int(chosen[int(torch.nonzero(~finite)[0])])]
        raise _broken(spec, f"the loss of a sample with the label {node!r} is not finite")
    if not losses.requires_grad:
        raise _broken(spec, "the loss does not depend on the logits, so nothing can be learned")
    (gradient,) = torch.autograd.grad(losses.sum(), given)
    if not gradient.isfinite().all():
        raise _broken(spec, "the gradient of the loss is not finite")


def _check_tensor(spec: str, what: str, found: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(found, Tensor) or tuple(found.shape) != shape:
        told = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        sides = "[batch, nodes]" if len(shape) == 2 else "[batch]"
        raise _broken(spec, f"{what} returns {told} instead of {sides}, here {list(shape)}")


def _broken(spec: str, problem: str) -> HeadError:
    return HeadError(f"head {spec!r} does not keep its promise: {problem} (docs/extend.md)")
