"""BatchNorms of a frozen net, fused into the convolutions before them."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

_trace: Any = torch.jit.trace


def fused(part: nn.Module, image: Tensor) -> nn.Module:
    """Return the net in evaluation mode with fewer layers, or as it is if its answer would change.

    ``image`` is run through it to see which BatchNorm follows which convolution.
    """
    with torch.no_grad():
        plain, pairs = _followed(part, image)
        if not pairs:
            return part
        made = copy.deepcopy(part)
        theirs = dict(zip(part.modules(), made.modules(), strict=True))
        rest = {}
        for convolution, norm in pairs:
            _absorb(theirs[convolution], norm)
            rest[theirs[norm]] = _after(norm)
        for parent in list(made.modules()):
            for name, child in parent.named_children():
                if child in rest:
                    setattr(parent, name, rest[child])
        made = made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return made if torch.allclose(made(image), plain, rtol=1e-4, atol=1e-4) else part


def traced(part: nn.Module, example: Tensor) -> Any:
    """Return the net as a traced program, which runs faster, if its bits are the same.

    Tracing takes a second: it is worth it for hundreds of images.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, its successor needs a compiler
        other = example.flip(-1) / 2  # a number read from the images must not become a constant
        wanted = part(example), part(other)
        try:
            program = torch.jit.freeze(_trace(part, example, check_trace=False))
            program(example), program(example)  # its first calls optimise it
            same = all(map(torch.equal, (program(example), program(other)), wanted))
        except Exception:  # a net may do what cannot be traced
            same = False
    return program if same else part


def _followed(part: nn.Module, image: Tensor) -> tuple[Tensor, list[tuple[nn.Module, nn.Module]]]:
    """Return the net's answer, and each convolution that one BatchNorm follows."""
    made: dict[int, nn.Module] = {}
    outputs: list[Tensor] = []  # kept, so that no other tensor has their id
    pairs: list[tuple[nn.Module, nn.Module]] = []

    def after_convolution(module: nn.Module, _given: Any, output: Tensor) -> None:
        made[id(output)] = module
        outputs.append(output)

    def before_norm(module: nn.Module, given: Any) -> None:
        if (convolution := made.get(id(given[0]))) is not None:
            pairs.append((convolution, module))

    hooks = []
    for module in part.modules():
        if isinstance(module, nn.Conv2d):
            hooks.append(module.register_forward_hook(after_convolution))
        elif _can_go(module):
            hooks.append(module.register_forward_pre_hook(before_norm))
    try:
        plain = part(image)
    finally:
        for hook in hooks:
            hook.remove()
    times = Counter(module for pair in pairs for module in pair)
    return plain, [pair for pair in pairs if times[pair[0]] == times[pair[1]] == 1]


def _can_go(module: nn.Module) -> bool:
    """Return whether a module is a BatchNorm with fixed statistics, torch's or timm's."""
    known = type(module) is nn.BatchNorm2d or type(module).__name__ == "BatchNormAct2d"
    return known and getattr(module, "running_mean", None) is not None


def _absorb(convolution: Any, norm: Any) -> None:
    statistics = norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    weights = fuse_conv_bn_weights(convolution.weight, convolution.bias, *statistics)
    convolution.weight, convolution.bias = (w.requires_grad_(False) for w in weights)


def _after(norm: Any) -> nn.Module:
    """Return what a BatchNorm does besides: timm's have an activation."""
    return nn.Identity() if type(norm) is nn.BatchNorm2d else nn.Sequential(norm.drop, norm.act)
