"""A net by name: one of the catalogue, or the user's own ``module:callable``.

A net is ``features`` followed by ``head``, the layer whose rows are the outputs. Its weights come
from the generator it is built with, and dropout from one set beforehand: the global random state
is neither read nor moved.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from fedgrain.catalogue import NETS
from fedgrain.errors import NetError
from fedgrain.nets.cnn import ImageShape
from fedgrain.nets.dropout import global_state, seed_dropouts
from fedgrain.plugins import call_own, load_callable

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)


def build_net(
    name: str,
    num_outputs: int,
    *,
    generator: torch.Generator,
    image_shape: ImageShape | None = None,
) -> nn.Module:
    """Return a net with fresh weights drawn from ``generator``.

    ``name`` is one of ``NETS`` or the user's ``module:callable``, which is called with the number
    of outputs and must return a module with ``features`` and ``head``.
    """
    if num_outputs < 1:
        raise NetError(f"a net needs at least one output, not {num_outputs}")
    if name in NETS:
        side = NETS[name].usual_side
        shape = image_shape or (side, side, 3)
        _check_shape(name, shape)
        make = load_callable(NETS[name].home, "net", NetError)
        with torch.device("meta"):  # no weights drawn: PyTorch would take the global state
            net: nn.Module = make(num_outputs, shape)
        initialise(net, generator)
        return net
    if ":" not in name:
        raise NetError(
            f"there is no net {name!r}; choose one of {', '.join(NETS)}, or name your own "
            "as module:callable"
        )
    if name.startswith("timm:"):  # trusted without --trust-code, so never called as own code
        raise NetError(f"net {name!r} is a pretrained trunk, but this model has no trunk")
    own = users_net(name, num_outputs, generator)
    if image_shape is not None:
        _try(name, own, num_outputs, image_shape)
    return own


def _try(name: str, net: nn.Module, num_outputs: int, shape: ImageShape) -> None:
    """Run a user's net on one image, so that one that does not fit is refused before training."""
    height, width, channels = shape
    modes = {module: module.training for module in net.modules()}
    net.eval()
    try:
        with torch.no_grad():
            answer = net(torch.zeros(1, channels, height, width))
    except Exception as problem:
        raise NetError(
            f"net {name!r} fails on an image of {height} x {width} pixels in {channels} channels "
            f"({type(problem).__name__}: {problem})"
        ) from problem
    finally:
        for module, mode in modes.items():
            module.training = mode
    if not isinstance(answer, torch.Tensor) or answer.shape != (1, num_outputs):
        found = list(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
        raise NetError(f"net {name!r} answers one image with {found} instead of {[1, num_outputs]}")


def _check_shape(name: str, shape: ImageShape) -> None:
    height, width, channels = shape
    smallest = NETS[name].smallest_side
    if min(height, width) < smallest or channels < 1:
        raise NetError(
            f"net {name} needs images of at least {smallest} x {smallest} pixels in one or more "
            f"channels, not {height} x {width} in {channels}; resize them or choose another net"
        )


def initialise(net: nn.Module, generator: torch.Generator) -> None:
    """Give a net made on the device "meta" its weights.

    PyTorch's default for Conv2d and Linear, weights and biases in order of the modules.
    """
    # to_empty would do the same, but imports sympy, which takes half a second
    state = {name: torch.empty(v.shape, dtype=v.dtype) for name, v in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
            if module.bias is not None:
                bound = 1 / math.sqrt(module.weight[0].numel())
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        elif isinstance(module, _NORMS):
            module.reset_parameters()  # to constants
        elif next(module.parameters(recurse=False), None) is not None:
            raise NetError(
                f"no rule says how the weights of {name or 'the net'} ({type(module).__name__}) "
                "begin; add one to fedgrain.nets.build"
            )


def users_net(name: str, num_outputs: int, generator: torch.Generator) -> nn.Module:
    """Build the user's net with the global state seeded from ``generator`` and put back after."""
    with global_state(int(torch.randint(2**62, (), generator=generator))):
        net = call_own(name, "net", NetError, num_outputs, called_with="the number of outputs")
    if not isinstance(net, nn.Module):
        raise NetError(f"net {name!r} made a {type(net).__name__}, not a torch.nn.Module")
    for part in ("features", "head"):
        if not isinstance(getattr(net, part, None), nn.Module):
            raise NetError(
                f"net {name!r} has no module {part!r}; split it into features and head, "
                "the layer that makes the outputs"
            )
    seed_dropouts(net, name)
    return net
