"""A client's training in a round: a pure function from weights to weights (method, section 10).

Every engine calls it, so the bits of a run do not depend on where or in which order clients train.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.sgd import sgd

from fedgrain.federated.federation import Indices, Source
from fedgrain.federated.sharpness import Gradients, sharp_gradients
from fedgrain.nets.dropout import global_state, set_dropout_generator
from fedgrain.randomness import torch_generator_from

State = dict[str, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]  # (logits, targets) -> mean loss

_CROP_MARGIN = 4


@dataclass(frozen=True)
class LocalSettings:
    """How a client trains; plain SGD by default, as in the paper's appendix."""

    lr: float = 0.05
    batch: int = 32
    epochs: int = 1
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0  # FedProx: mu / 2 |w - w_global|^2
    crop_and_flip: bool = False
    sam: float = 0.0  # SAM: how far the weights are moved uphill before a gradient is taken (rho)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The samples that enter a loss, with their targets."""

    source: Source
    indices: Indices  # [samples]
    targets: Tensor  # [samples, ...]


@dataclass(frozen=True, eq=False)
class Update:
    """What a client sends back."""

    state: State
    samples: int
    loss: float | None  # mean over the last epoch; None (like steps) if a site withholds it
    steps: int | None

    @property
    def finite(self) -> bool:
        """Whether the loss and every weight is a finite number."""
        weights = (value for value in self.state.values() if value.is_floating_point())
        loss_is_finite = self.loss is None or math.isfinite(self.loss)
        return loss_is_finite and all(bool(w.isfinite().all()) for w in weights)


def train_locally(
    net: nn.Module,
    state: State,
    loss: Loss,
    data: TrainingData,
    settings: LocalSettings,
    generator: np.random.Generator,
    correction: State | None = None,
) -> Update:
    """Train from ``state`` on a client's data and return the new weights.

    ``correction`` is added to the gradients of every step, by the names of the weights (SCAFFOLD).

    ``net`` is scratch space: its weights are overwritten, and only its architecture affects the
    result. The last, partial batch is kept.
    """
    net.load_state_dict(state)
    net.train()
    device = next(net.parameters()).device
    dropout = torch_generator_from(generator, device)
    set_dropout_generator(net, dropout)
    parameters = [parameter for parameter in net.parameters() if parameter.requires_grad]
    start = [p.detach().clone() for p in parameters] if settings.proximal else []
    added = _by_parameter(net, correction, device) if correction else None
    descent = _Descent(parameters, settings)
    steps, total = 0, 0.0
    with global_state(dropout.initial_seed() ^ 1):  # for a user's net that draws from it
        for epoch in range(settings.epochs):
            last = epoch == settings.epochs - 1
            for images, targets in batches(data, settings, generator):
                inputs, wanted = images.to(device), targets.to(device)
                cost, gradients = gradients_of(net, parameters, loss, inputs, wanted)
                if settings.sam:
                    there = partial(_loss_of, net, loss, inputs, wanted)
                    gradients = sharp_gradients(net, parameters, gradients, settings.sam, there)
                if added is not None:
                    _correct(gradients, added)
                if settings.proximal:
                    _pull_back(parameters, gradients, start, settings.proximal)
                descent.step(gradients)
                steps += 1
                total += float(cost.detach()) * len(targets) if last else 0.0
    trained = snapshot(net)
    return Update(trained, len(data.indices), total / max(1, len(data.indices)), steps)


def gradients_of(
    net: nn.Module, parameters: list[nn.Parameter], loss: Loss, inputs: Tensor, targets: Tensor
) -> tuple[Tensor, Gradients]:
    """Return the loss of a batch and the gradient of each parameter.

    A net that is one linear layer says so (``only_layer``). Its gradients are two products of
    matrices, the same bits as autograd's, in less time than autograd needs to find them.
    """
    layer = getattr(net, "only_layer", None)
    if not isinstance(layer, nn.Linear) or not _are_all(parameters, layer.weight, layer.bias):
        cost = loss(net(inputs), targets)
        return cost, [*torch.autograd.grad(cost, parameters, allow_unused=True)]
    with torch.no_grad():
        logits = functional.linear(inputs, layer.weight, layer.bias)
    cost = loss(logits.requires_grad_(), targets)
    (slope,) = torch.autograd.grad(cost, logits)
    return cost, [slope.t() @ inputs, slope.sum(0)]


def _are_all(parameters: list[nn.Parameter], *expected: Tensor | None) -> bool:
    """Whether these are the parameters, so that a user's net is not taken for a part of it."""
    return len(parameters) == len(expected) and all(map(operator.is_, parameters, expected))


def _loss_of(net: nn.Module, loss: Loss, images: Tensor, targets: Tensor) -> Tensor:
    return loss(net(images), targets)


def _by_parameter(net: nn.Module, correction: State, device: torch.device) -> list[Tensor]:
    """Return the correction of each trained weight's gradient, in order."""
    trained = [name for name, weight in net.named_parameters() if weight.requires_grad]
    return [correction[name].to(device) for name in trained]


class _Descent:
    """SGD as ``torch.optim.SGD(fused=True)`` does it, to the bit.

    The class costs a third of a step on features of a frozen trunk, and its import of torch's
    compiler two seconds of every process.
    """

    def __init__(self, parameters: list[nn.Parameter], settings: LocalSettings) -> None:
        self.parameters, self.settings = parameters, settings
        self.momenta: Gradients = [None] * len(parameters)

    @torch.no_grad()
    def step(self, gradients: Gradients) -> None:
        """Move the weights that have a gradient."""
        if not (self.settings.momentum or self.settings.weight_decay):
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                if gradient is not None:
                    parameter.add_(gradient, alpha=-self.settings.lr)
            return
        moved = [place for place, gradient in enumerate(gradients) if gradient is not None]
        momenta = [self.momenta[place] for place in moved]
        sgd(
            [self.parameters[place] for place in moved],
            [gradient for gradient in gradients if gradient is not None],
            momenta,
            fused=True,
            lr=self.settings.lr,
            momentum=self.settings.momentum,
            weight_decay=self.settings.weight_decay,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        if self.settings.momentum:
            for place, momentum in zip(moved, momenta, strict=True):
                self.momenta[place] = momentum


def _correct(gradients: Gradients, added: list[Tensor]) -> None:
    for place, value in enumerate(added):
        gradient = gradients[place]
        gradients[place] = value if gradient is None else gradient + value


def snapshot(net: nn.Module) -> State:
    """Return a copy of a net's weights and buffers, in main memory."""
    return {name: value.detach().to("cpu", copy=True) for name, value in net.state_dict().items()}


def _pull_back(
    parameters: list[nn.Parameter], gradients: Gradients, start: list[Tensor], strength: float
) -> None:
    """Add the gradient of FedProx's term, mu (w - w_global) (Li et al. 2020)."""
    for place, (parameter, origin) in enumerate(zip(parameters, start, strict=True)):
        gradient = gradients[place]
        if gradient is not None:
            gradients[place] = gradient.add(parameter.detach() - origin, alpha=strength)


def batches(
    data: TrainingData, settings: LocalSettings, generator: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Go once through the data in a fresh random order."""
    order = generator.permutation(len(data.indices))
    for start in range(0, len(order), settings.batch):
        chosen = order[start : start + settings.batch]
        images = data.source.training_batch(data.indices[chosen], generator)
        if settings.crop_and_flip:
            images = crop_and_flip(images, generator)
        yield images, data.targets.index_select(0, torch.from_numpy(chosen))


def crop_and_flip(images: Tensor, generator: np.random.Generator) -> Tensor:
    """Shift each image by up to 4 pixels (zeros come in) and mirror every second one, at random."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (_CROP_MARGIN,) * 4)
    shift = torch.from_numpy(generator.integers(0, 2 * _CROP_MARGIN + 1, size=(2, count)))
    mirror = torch.from_numpy(generator.integers(0, 2, size=count)).bool()
    rows = shift[0][:, None] + torch.arange(height)  # [batch, height]
    columns = shift[1][:, None] + torch.arange(width)  # [batch, width]
    columns = torch.where(mirror[:, None], columns.flip(1), columns)
    every = torch.arange(count)[:, None, None]
    # indices on both sides of a slice put its axis last: [batch, height, width, channels]
    moved = padded[every, :, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)
