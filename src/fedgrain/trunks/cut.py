"""A trunk cut in two: what is frozen and computed once per image, and what is trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from fedgrain.errors import NetError

_CONTAINERS = (nn.Sequential, nn.ModuleList)
_CLOSE = 1e-4  # of the largest feature: the upper part against the whole


class Trunk(nn.Module):
    """A pretrained net without its own last layer: images to features [batch, width]."""

    def __init__(self, name: str, net: nn.Module) -> None:
        super().__init__()
        self.name = name
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        """Images [batch, channels, height, width] to features [batch, width]."""
        features: Tensor = self.net(images)
        return features

    def body(self) -> nn.Module:
        """Return the module in which the blocks are."""
        return self.net

    def body_output(self, images: Tensor) -> Tensor:
        """Return what the blocks make of images, before they are pooled to features."""
        raise NotImplementedError

    def without_body(self) -> Callable[[Tensor], Tensor]:
        """Return the function from :meth:`body_output` to features."""
        raise NotImplementedError


class TimmTrunk(Trunk):
    """A timm model: ``forward_features``, then ``forward_head`` without the classifier."""

    def body_output(self, images: Tensor) -> Tensor:
        """Return the result of ``forward_features``."""
        return self.net.forward_features(images)  # type: ignore[operator, no-any-return]

    def without_body(self) -> Callable[[Tensor], Tensor]:
        """Return ``forward_head``."""
        return self.net.forward_head  # type: ignore[return-value]


class OwnTrunk(Trunk):
    """A user's net: ``features``, then what its ``forward`` does before its ``head``."""

    def body(self) -> nn.Module:
        """Return the net's ``features``."""
        return self.net.features  # type: ignore[return-value]

    def body_output(self, images: Tensor) -> Tensor:
        """Return the result of ``features``."""
        return self.net.features(images)  # type: ignore[operator, no-any-return]

    def without_body(self) -> Callable[[Tensor], Tensor]:
        """Return the net with nothing in the place of ``features``."""
        self.net.features = nn.Identity()
        return self.net


class Above(nn.Module):
    """The last blocks of a trunk and what follows them: activations to features."""

    def __init__(self, units: nn.ModuleList, rest: Trunk) -> None:
        super().__init__()
        self.units = units
        self.rest = rest  # its blocks are gone
        self._pool = [rest.without_body()]  # in a list: not registered as a module again

    def forward(self, activations: Tensor) -> Tensor:
        """Activations below the last blocks to features [batch, width]."""
        for unit in self.units:
            activations = unit(activations)
        return self._pool[0](activations)

    def __deepcopy__(self, memo: dict[int, Any]) -> Above:
        """Copy the modules, and let the copy pool with its own."""
        return Above(copy.deepcopy(self.units, memo), copy.deepcopy(self.rest, memo))


def cut(trunk: Trunk, blocks: int, image: Tensor) -> tuple[list[nn.Module], int]:
    """Return the units of a trunk in the order they run, and where its last blocks begin.

    A unit is what lies in the nested sequences of the net; a block is a unit of several layers, or
    any unit with weights where there are no such units.
    """
    order: list[nn.Module] = []
    hooks = [
        unit.register_forward_hook(lambda module, *_: order.append(module))
        for unit in _units(trunk.body())
    ]
    try:
        with torch.no_grad():
            trunk.body_output(image)
    finally:
        for hook in hooks:
            hook.remove()
    found = _blocks(order)
    if len(set(map(id, order))) != len(order) or not found:
        raise NetError(f"{trunk.name}: its blocks are not one sequence; train head or all")
    if blocks > len(found):
        raise NetError(
            f"train is blocks:{blocks}, but {trunk.name} has {len(found)} blocks; train fewer, or "
            "all"
        )
    return order, order.index(found[-blocks])


def _units(module: nn.Module) -> Iterator[nn.Module]:
    if isinstance(module, _CONTAINERS) and not len(module):
        return
    for child in module.children():
        if isinstance(child, _CONTAINERS):
            yield from _units(child)
        else:
            yield child


def _blocks(units: list[nn.Module]) -> list[nn.Module]:
    weighted = [unit for unit in units if next(unit.parameters(), None) is not None]
    composed = [unit for unit in weighted if sum(1 for _ in _with_weights(unit)) > 1]
    return composed or weighted


def _with_weights(module: nn.Module) -> Iterator[nn.Module]:
    return (m for m in module.modules() if next(m.parameters(recurse=False), None) is not None)


class _Reached(Exception):  # noqa: N818 - not an error: the frozen part ends here
    pass


class Below(nn.Module):
    """The frozen part: images to what enters a unit of the trunk."""

    def __init__(self, trunk: Trunk, unit: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self._unit = [unit]

    def forward(self, images: Tensor) -> Tensor:
        """Run the trunk up to the unit."""
        caught: list[Tensor] = []

        def catch(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            caught.append(inputs[0])
            raise _Reached

        hook = self._unit[0].register_forward_pre_hook(catch)
        try:
            self.trunk(images)
        except _Reached:
            pass
        finally:
            hook.remove()
        return caught[0]


class Lower(nn.Module):
    """The frozen part as a plain module, which can be exported: nothing in place of the blocks."""

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, images: Tensor) -> Tensor:
        """Images to what enters the last blocks."""
        return self.trunk.body_output(images)


def lower(trunk: Trunk, blocks: int, image: Tensor) -> Lower:
    """Return what is below the last blocks, checked against :class:`Below`."""
    order, start = cut(trunk, blocks, image)
    with torch.no_grad():
        wanted = Below(trunk, order[start])(image)
    gone = {id(unit) for unit in order[start:]}
    for parent in list(trunk.modules()):
        for name, child in list(parent.named_children()):
            if id(child) in gone:
                setattr(parent, name, nn.Identity())
    part = Lower(trunk)
    try:
        with torch.no_grad():
            found = part(image)
    except Exception:  # whatever a net does with what is not a plain sequence
        found = None
    if found is None or found.shape != wanted.shape or not torch.equal(found, wanted):
        raise NetError(f"{trunk.name}: what is below its last {blocks} blocks cannot be exported")
    return part


def above(trunk: Trunk, blocks: int, image: Tensor) -> Above:
    """Return the trained part, the last blocks and what follows; the trunk is used up.

    It is checked against the whole: a net whose blocks are not a plain sequence is refused.
    """
    order, start = cut(trunk, blocks, image)
    with torch.no_grad():
        whole = trunk(image)
        activations = Below(trunk, order[start])(image)
    units = nn.ModuleList(order[start:])
    _remove_body(trunk, {id(unit) for unit in order})
    part = Above(units, trunk)
    try:
        with torch.no_grad():
            again = part(activations)
        same = bool(((again - whole).abs() <= _CLOSE * whole.abs().max().clamp(min=1e-6)).all())
    except Exception:  # whatever a net does with what is not a plain sequence
        same = False
    if not same:
        raise NetError(
            f"{trunk.name}: its last {blocks} blocks cannot be cut off: they are not a plain "
            "sequence; train head or all"
        )
    return part


def _remove_body(trunk: Trunk, ran: set[int]) -> None:
    """Drop the weights of all units: those that are trained are kept elsewhere."""
    body = trunk.body()
    if body is not trunk.net:
        return  # a user's features are replaced as a whole
    for name in list(body._parameters):  # such as the position embedding of a transformer
        body._parameters[name] = None
    for name, child in list(body.named_children()):
        if any(id(module) in ran for module in child.modules()):
            setattr(body, name, nn.Identity())
