"""The interface of a head: logits to a loss and to probabilities of nodes (method, section 6).

A head has no parameters: the last layer of the net makes the logits. It is an ``nn.Module`` only so
that its index tensors follow ``.to(device)``; they are not part of a state dict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.catalogue import HEADS
from fedgrain.errors import HeadError
from fedgrain.heads.projection_tensors import ProjectionTensors
from fedgrain.heads.tree_sums import TreeSums
from fedgrain.heads.writing_tensors import LabelWeights
from fedgrain.taxonomy.tree import Taxonomy

_LEAST_STEP = -60.0  # log P among siblings; less is as good as never


class Head(nn.Module, ABC):
    """Loss and node probabilities for labels at any node of a taxonomy.

    Labels are node numbers [batch], of any integer type. Their range is not checked batch by
    batch, so call :meth:`check_labels` once on those of a data set. Logits in half precision are
    converted to float32. Subclasses define the paper's rule in :meth:`sample_losses` and the
    model in :meth:`node_log_probs`.
    """

    name: ClassVar[str]

    def __init__(self, taxonomy: Taxonomy, num_outputs: int) -> None:
        super().__init__()
        if len(taxonomy) < 2:
            raise HeadError(
                f"a head needs at least two nodes, but the taxonomy has only the node "
                f"{taxonomy.ids[0]!r}; add one"
            )
        self.taxonomy = taxonomy
        self.num_outputs = num_outputs
        self.sums = TreeSums(taxonomy)

    @property
    def supervisions(self) -> tuple[str, ...]:
        """The supervisions the head supports; a user's own head overrides this."""
        return HEADS[self.name].supervisions if self.name in HEADS else ("paper",)

    def extra_repr(self) -> str:
        """Say which head this is."""
        return f"{self.name}, {self.num_outputs} outputs for {self.taxonomy!r}"

    @abstractmethod
    def sample_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the paper's loss of each sample [batch]; 0 where the label does not enter."""

    @abstractmethod
    def node_log_probs(self, logits: Tensor) -> Tensor:
        """Return log P(v) of every node [batch, nodes]: at most 0, never above the parent's."""

    def leaf_log_probs(self, logits: Tensor) -> Tensor:
        """Return log P of every leaf [batch, leaves]."""
        return self.node_log_probs(logits).index_select(1, self.sums.leaves)

    def enters(self, labels: Tensor) -> Tensor:
        """Mask [batch]: the sample enters the loss, and so counts in its client's weight.

        A sample that costs nothing (a root label of cond-softmax) still enters: it is in the batch
        whose mean is taken. Only labels that section 6 drops before batching do not.
        """
        return torch.ones_like(labels, dtype=torch.bool)

    def check(self, logits: Tensor) -> None:
        """Refuse logits that were not made for this head; too many would pass unnoticed."""
        if logits.dim() != 2 or logits.shape[1] != self.num_outputs:
            raise HeadError(
                f"{self.name} on this taxonomy takes logits [batch, {self.num_outputs}], not "
                f"{list(logits.shape)}; build the net with head.num_outputs"
            )

    def check_labels(self, labels: Tensor | NDArray[Any]) -> None:
        """Refuse labels that are not nodes of the taxonomy; a loss would not notice them."""
        check_labels(self.taxonomy, labels)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean of the paper's loss over the samples of the batch that enter it (0 if none)."""
        self.check(logits)
        logits, labels = at_least_float32(logits), labels.long()
        return mean_entering(self.sample_losses(logits, labels), self.enters(labels))

    def marginal_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return -log P(label) [batch]: the label is merely a true ancestor of the class."""
        return -self.node_log_probs(logits).gather(1, labels.long()[:, None])[:, 0]

    def tempered_log_probs(self, logits: Tensor, temperature: float) -> Tensor:
        """Return log P(v) of every node, with P(leaf) to the power 1/T and normalised.

        Every image has a leaf, so whatever a head gives to inner nodes is shared out among the
        leaves. No temperature changes which leaf is the likeliest.
        """
        table = self.node_log_probs(logits)
        leaves = (table.index_select(1, self.sums.leaves) / temperature).log_softmax(1)
        own = torch.full_like(table, -torch.inf).index_copy(1, self.sums.leaves, leaves)
        return self.sums.probabilities_under(own)

    def log_steps(self, logits: Tensor) -> Tensor:
        """Return log P(v | its parent) of every node but the root, shared out among the leaves."""
        table = self.tempered_log_probs(logits, 1.0)
        steps = table[:, 1:] - table.index_select(1, self.sums.parents[1:])
        return steps.nan_to_num(nan=0.0).clamp(_LEAST_STEP, 0.0)  # nan: below what has no chance

    def log_probs_by_depth(self, logits: Tensor, temperatures: Sequence[float]) -> Tensor:
        """Return log P(v) of every node, with a temperature per depth, from the first down.

        Among the children of a node P(child | node) is to the power 1/T and normalised, so that
        children still add up to their node. It may change which leaf is the likeliest.
        """
        chosen = logits.new_tensor(temperatures, dtype=torch.float32)[self.sums.depth[1:] - 1]
        steps = self.sums.sibling_log_softmax(self.log_steps(logits) / chosen)
        return self.sums.along_paths(steps)

    def projection_losses(
        self, logits: Tensor, labels: Tensor, projection: ProjectionTensors
    ) -> Tensor:
        """Return -log of the probability that the client writes the label [batch]."""
        raise HeadError(f"head {self.name} has no projection likelihood")

    def written_losses(self, logits: Tensor, labels: Tensor, writing: LabelWeights) -> Tensor:
        """Return -log of the sum over leaves of P(leaf) T(label | leaf) [batch]."""
        leaves = self.leaf_log_probs(logits)
        weights = writing.leaf_weights(self.sums, labels.long())
        return minus_log_share(leaves, weights.to(leaves.dtype))


def at_least_float32(values: Tensor) -> Tensor:
    """Return float16 and bfloat16 as float32, where nothing near 6e4 overflows; others as is."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def check_labels(
    taxonomy: Taxonomy, labels: Tensor | NDArray[Any], whose: str = "the labels"
) -> None:
    """Refuse labels that are not node numbers of the taxonomy, naming the first that is not."""
    numbers = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise HeadError(f"{whose} must be whole numbers, the nodes of labels, not {numbers.dtype}")
    outside = np.flatnonzero((numbers < 0) | (numbers >= len(taxonomy)))
    if outside.size:
        first = int(outside[0])
        raise HeadError(
            f"{whose} must be nodes of the taxonomy, from 0 to {len(taxonomy) - 1}, but sample "
            f"{first} has {int(numbers.flat[first])}; leave out samples without a label"
        )


def mean_entering(losses: Tensor, entering: Tensor) -> Tensor:
    """Mean over the samples that enter, as if the others had been dropped before batching."""
    return losses.sum() / entering.sum().clamp_min(1)


def minus_log_share(scores: Tensor, log_weights: Tensor) -> Tensor:
    """Return -log of the softmax mass of ``scores`` [batch, entries] under the given weights.

    The gradient is softmax(scores) - softmax(scores + weights). The largest score is taken out
    first, so that nothing cancels; where every weight is 1 both are the same bits, and loss and
    gradient are exactly zero.
    """
    losses: Tensor = _MinusLogShare.apply(scores, log_weights)  # type: ignore[no-untyped-call]
    return losses


class _MinusLogShare(torch.autograd.Function):
    """Written out because autograd would walk through both log-sum-exps op by op."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, log_weights: Tensor) -> Tensor:
        everything = scores - scores.amax(1, keepdim=True)
        kept = everything + log_weights
        largest = kept.amax(1, keepdim=True)
        kept = kept.sub_(largest).exp_()
        everything = everything.exp_()
        total, share = everything.sum(1, keepdim=True), kept.sum(1, keepdim=True)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(everything.div_(total).sub_(kept.div_(share)))
        return (total.log() - share.log() - largest)[:, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (difference,) = ctx.saved_tensors
        return gradients[0][:, None] * difference, None
