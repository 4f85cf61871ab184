"""The net and head of a :class:`ModelSpec`, built: weights to start from, and nets to compute with.

Every process builds it from the same description, so all start from the same weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import torch
from torch import Tensor, nn

from fedgrain.catalogue import check_pair, check_supervision
from fedgrain.engines.model_spec import ModelSpec
from fedgrain.errors import FederationError, HeadError, NetError
from fedgrain.federated.averaging import State
from fedgrain.federated.federation import Indices, Source
from fedgrain.federated.local_training import snapshot
from fedgrain.heads import CondSoftmax, DecoupledModel, build_head, decouple
from fedgrain.heads.chunks import samples_at_once
from fedgrain.heads.promises import check_promises
from fedgrain.randomness import numpy_generator, torch_generator_from
from fedgrain.taxonomy import Taxonomy
from fedgrain.trunks import build_trained


class BuiltModel:
    """A net for the whole tree, its head, and a net for each branch.

    The nets are scratch space: load weights into one before you use it. Building
    needs no images, only their shape (height, width, channels). With a pretrained trunk the nets
    are only what is trained of it.
    """

    def __init__(
        self,
        spec: ModelSpec,
        taxonomy: Taxonomy,
        image_shape: tuple[int, ...],
        seed: int,
        device: str = "cpu",
    ) -> None:
        check_pair(spec.net, spec.head, NetError)
        self.spec, self.taxonomy = spec, taxonomy
        self.device = torch.device(device)
        head = build_head(spec.head, taxonomy, **spec.head_settings)
        if ":" in spec.head:
            check_promises(spec.head, head)
        self.head = head.to(self.device)
        check_supervision(self.head.name, spec.supervision, HeadError, self.head.supervisions)
        generator = torch_generator_from(numpy_generator(seed, "initial weights"))
        outputs = self.head.num_outputs
        net = build_trained(
            spec.net, spec.trunk, outputs, generator=generator, image_shape=image_shape
        )
        self.net = net.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.initial = snapshot(self.net)
        trained = (name for name, weight in self.net.named_parameters() if weight.requires_grad)
        self.parameters = frozenset(trained)  # the same names in every branch
        self._at_once = samples_at_once(len(taxonomy))

    @cached_property
    def branch_nets(self) -> dict[int, nn.Module]:
        """A net for each branch; built on first use."""
        return self._cut_out()

    def _cut_out(self) -> dict[int, nn.Module]:
        if not isinstance(self.head, CondSoftmax):
            raise FederationError(f"fedbdft needs the head cond-softmax, not {self.spec.head}")
        return decouple(self.net, self.head)

    def decouple(self, weights: State) -> dict[int, State]:
        """Return the weights of each branch, cut out of those of a trained cond-softmax."""
        self.net.load_state_dict(weights)
        return {branch: snapshot(net) for branch, net in self._cut_out().items()}

    def decoupled_model(self, weights: Mapping[int, State]) -> DecoupledModel:
        """Return the branches as one model; it computes in :attr:`branch_nets`."""
        for branch, state in weights.items():
            self.branch_nets[branch].load_state_dict(state)
        return DecoupledModel(self.taxonomy, self.branch_nets).to(self.device)

    def blocks(self, source: Source, indices: Indices) -> Iterator[Tensor]:
        """Return images on the model's device, as many at once as memory allows."""
        for start in range(0, len(indices), self._at_once):
            yield source.batch(indices[start : start + self._at_once]).to(self.device)

    def split(self, targets: Tensor) -> tuple[Tensor, ...]:
        """Return the targets on the model's device, split as :meth:`blocks` splits the images."""
        return torch.split(targets.to(self.device), self._at_once)
