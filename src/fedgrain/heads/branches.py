"""cond-softmax taken apart into one net per branch, for FedBDFT (method, sections 6 and 10)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgrain.catalogue import HEADS
from fedgrain.errors import HeadError
from fedgrain.heads.base import at_least_float32, check_labels, minus_log_share
from fedgrain.heads.chunks import run_in_chunks, samples_at_once
from fedgrain.heads.cond_softmax import CondSoftmax
from fedgrain.knowledge.known_nodes import check_known_nodes
from fedgrain.taxonomy.tree import BoolArray, Taxonomy

TOGETHER = -1  # target of a sample labelled exactly at the branch: its unknown children together


def decouple(net: nn.Module, head: CondSoftmax) -> dict[int, nn.Module]:
    """Return one net per internal node: own copy of the features, head rows of its children.

    Outputs of a branch's net are in the order of ``taxonomy.children(branch)``.
    """
    if not isinstance(head, CondSoftmax):
        raise HeadError(f"only cond-softmax can be decoupled into branches, not {head.name}")
    branches = {}
    for branch in head.taxonomy.internal.tolist():
        rows = torch.tensor(head.taxonomy.children(branch).astype(np.int64)) - 1
        branches[branch] = _with_rows(net, rows, head.num_outputs)
    return branches


def _with_rows(net: nn.Module, rows: Tensor, num_outputs: int) -> nn.Module:
    """Copy a net, keeping only the given rows of the layer that makes its outputs."""
    branch = copy.deepcopy(net)
    if not isinstance(getattr(branch, "head", None), nn.Module):
        raise HeadError("cannot decouple: the net has no module 'head'")
    layers = [m for m in branch.head.modules() if isinstance(m, nn.Linear | nn.Conv2d)]  # type: ignore[union-attr]
    if not layers or len(layers[-1].weight) != num_outputs:
        raise HeadError(
            f"cannot decouple: the last layer of the net's head must be a Linear or Conv2d with "
            f"{num_outputs} outputs"
        )
    layer = layers[-1]
    rows = rows.to(layer.weight.device)
    layer.weight = nn.Parameter(layer.weight.detach()[rows])
    if layer.bias is not None:
        layer.bias = nn.Parameter(layer.bias.detach()[rows])
    if isinstance(layer, nn.Linear):
        layer.out_features = len(rows)
    else:
        layer.out_channels = len(rows)
    return branch


# -- labels and loss of a branch -------------------------------------------------------------------


def unknown_children(taxonomy: Taxonomy, branch: int, known: Tensor | BoolArray) -> Tensor:
    """Mask [children] of the branch's children that the client does not know.

    With a mask for each of its labellers [labellers, nodes] it is [labellers, children].
    """
    masks = np.asarray(known)
    check_known_nodes(taxonomy, np.atleast_2d(masks), HeadError)
    return torch.tensor(~masks[..., taxonomy.children(branch)])


def branch_dataset(
    taxonomy: Taxonomy,
    labels: Tensor,
    branch: int,
    supervision: str = "paper",
    known: Tensor | BoolArray | None = None,
    labellers: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return D_e of a branch e: which samples belong to it, and their targets.

    A sample labelled strictly below e has the position of the child on the way down as target. With
    `projection`, a sample labelled exactly e joins when the unknown children are a proper,
    non-empty subset of Ch(e); its target is ``TOGETHER``. With `learned` it also joins when some
    known children are leaves, and some are not. ``known`` is the client's mask [nodes],
    or those of its labellers [labellers, nodes] with ``labellers`` [samples], who wrote each label.
    """
    if supervision not in HEADS[CondSoftmax.name].supervisions:
        raise HeadError(
            f"there is no supervision {supervision!r} for branches; "
            f"choose one of {', '.join(HEADS[CondSoftmax.name].supervisions)}"
        )
    children = torch.tensor(taxonomy.children(branch).astype(np.int64))
    if not len(children):
        raise HeadError(f"{taxonomy.ids[branch]!r} is a leaf: it has no branch")
    check_labels(taxonomy, labels)
    labels = torch.as_tensor(labels, dtype=torch.int64)
    member = (labels > branch) & (labels < int(taxonomy.subtree_end[branch]))
    if supervision in ("projection", "learned"):
        if known is None:
            raise HeadError(
                f"supervision {supervision!r} needs to know what the client knows; give `known`"
            )
        kinds = unknown_children(taxonomy, branch, known).long()
        if supervision == "learned":
            is_leaf = torch.tensor(taxonomy.child_counts[taxonomy.children(branch)] == 0)
            kinds = torch.where(kinds == 0, is_leaf.long(), 2)
        joins = kinds.amin(-1) < kinds.amax(-1)
        member |= (labels == branch) & (joins if labellers is None else joins[labellers])
    indices = member.nonzero()[:, 0]
    # children are ascending and subtrees are slices: the last child not after the label holds it;
    # for the branch's own label there is none, which gives TOGETHER
    targets = torch.searchsorted(children, labels[indices].contiguous(), right=True) - 1
    return indices, targets


def branch_losses(
    logits: Tensor,
    targets: Tensor,
    unknown: Tensor | None = None,
    laziness: float = 0.0,
    *,
    stops: Tensor | None = None,
) -> Tensor:
    """Return the loss of each sample of D_e [batch] from the branch's logits [batch, children].

    Cross-entropy for a child; for ``TOGETHER`` -log of the softmax over the ``unknown`` children,
    where ``laziness`` gives the known ones that much weight. ``unknown`` is [children], or
    [batch, children] where labellers differ. For `learned` it is replaced by ``stops``: the
    probability to stop before each child, which is its weight.
    """
    logits, targets = at_least_float32(logits), targets.long()
    losses = functional.cross_entropy(logits, targets, ignore_index=TOGETHER, reduction="none")
    together = targets == TOGETHER
    if not together.any():
        return losses
    if stops is not None:
        weight = stops.log()
    elif unknown is not None:
        lazy = math.log(laziness) if laziness > 0 else -math.inf
        weight = torch.where(unknown, 0.0, lazy)
    else:
        raise HeadError("samples of all unknown children together need the mask `unknown`")
    # of the others' labellers some know every child: no share, only a NaN gradient
    weight = torch.where(together[:, None], weight, 0.0).to(logits)  # [batch, children]
    return torch.where(together, minus_log_share(logits, weight), losses)


# -- the decoupled model ---------------------------------------------------------------------------


@dataclass(frozen=True)
class BestLeaf:
    """The likeliest leaf of each sample, and how many branches were run to be sure of it."""

    leaf: Tensor  # [samples]
    log_prob: Tensor  # [samples]
    branches: Tensor  # [samples]


class DecoupledModel(nn.Module):
    """All branch nets as one model: P(v) is the product of branch softmaxes along the path.

    As a module it maps images to logits in the order of cond-softmax, so it can stand wherever a
    net with that head can. Prediction runs the nets in chunks of one size
    (:mod:`fedgrain.heads.chunks`): a sample's result does not depend on its batch.
    """

    def __init__(self, taxonomy: Taxonomy, branches: Mapping[int, nn.Module]) -> None:
        super().__init__()
        if sorted(branches) != taxonomy.internal.tolist():
            raise HeadError("a decoupled model needs one net for every internal node, and no other")
        self.taxonomy = taxonomy
        self.head = CondSoftmax(taxonomy)
        self.branches = nn.ModuleDict(
            {str(branch): branches[branch] for branch in sorted(branches)}
        )

    def forward(self, images: Tensor) -> Tensor:
        """Images to the logits of all branches [batch, nodes without root]."""
        return self._gathered([net(images) for net in self.branches.values()])

    def node_log_probs(self, images: Tensor) -> Tensor:
        """Return log P of every node [samples, nodes], running every branch for every sample."""
        return self.head.sums.along_paths(self.conditionals(images))

    def conditionals(self, images: Tensor) -> Tensor:
        """Return log P given the parent [samples, nodes without root]: logits of cond-softmax."""
        return self._gathered([_conditional(net, images) for net in self.branches.values()])

    def best_leaf(self, images: Tensor) -> BestLeaf:
        """Find the likeliest leaf best-first; equal to the `leaf` rule on :meth:`node_log_probs`.

        Probabilities only shrink on the way down, so when the likeliest open node is a leaf, no
        other leaf can be likelier: a sample runs only branches at least as likely as its answer.
        """
        size = samples_at_once(len(self.taxonomy))
        parts = [
            self._search(images[start : start + size])
            for start in range(0, max(len(images), 1), size)
        ]
        return BestLeaf(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _gathered(self, outputs: list[Tensor]) -> Tensor:
        """Bring outputs of the branches, in order of their nodes, to the order of cond-softmax."""
        order = self.head.by_parent[: self.head.num_outputs] - 1
        together = torch.cat(outputs, 1)
        return torch.empty_like(together).index_copy(1, order, together)

    def _search(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Search a block of samples, each step running the branch that most samples wait for."""
        device = images.device
        open_nodes = torch.full((len(images), len(self.taxonomy)), -torch.inf, device=device)
        counts = torch.zeros(len(images), dtype=torch.int64, device=device)
        landing = torch.tensor(self.taxonomy.past_single_children(), device=device)
        is_leaf = self.head.child_count.to(device) == 0
        open_nodes[:, landing[0]] = 0.0
        best = landing[0].expand(len(images)).clone()  # [samples], likeliest open node
        while not is_leaf[best].all():
            branch = int(best[~is_leaf[best]].bincount().argmax())
            rows = (best == branch).nonzero()[:, 0]
            children = torch.tensor(self.taxonomy.children(branch).astype(np.int64), device=device)
            conditional = _conditional(self.branches[str(branch)], images[rows])
            here = open_nodes[rows, branch]
            open_nodes[rows, branch] = -torch.inf
            open_nodes[rows[:, None], landing[children]] = here[:, None] + conditional
            counts[rows] += 1
            best[rows] = open_nodes[rows].argmax(1)  # the first among equals, as in the leaf rule
        return best, open_nodes.gather(1, best[:, None])[:, 0], counts


def _conditional(net: nn.Module, images: Tensor) -> Tensor:
    """Return log P of a branch's children, given the branch [samples, children]."""
    return at_least_float32(run_in_chunks(net, images)).log_softmax(1)
