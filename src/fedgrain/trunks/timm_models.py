"""timm's models, imported also where torchvision's compiled operators do not load."""

from __future__ import annotations

import socket
import sys
import urllib.parse
import urllib.request
import warnings
from typing import Any

import torch
from torch import nn

from fedgrain.catalogue import TIMM
from fedgrain.errors import NetError
from fedgrain.trunks.slow_imports import slow_modules_later

_INSTALL = "pip install 'fedgrain[timm]'"
_OPERATORS = ("nms", "qnms")  # which torchvision declares in its compiled part
_stand_ins: list[torch.library.Library] = []  # they last as long as this list


def import_timm() -> Any:
    """Import timm, which imports torchvision.

    torchvision from PyPI does not load its compiled operators beside a CPU build of torch, and its
    import then fails. No trunk needs them: we declare the missing ones, without an implementation.
    """
    import_torchvision()
    try:
        with slow_modules_later():
            import timm
    except ImportError as error:
        raise NetError(f"nets named timm:NAME need timm ({error}); {_INSTALL}") from None
    return timm


def import_torchvision() -> Any:
    """Import torchvision, with stand-ins for operators that it lacks."""
    try:
        return _imported()
    except ImportError as error:
        raise NetError(f"timm needs torchvision ({error}); {_INSTALL}") from None
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]  # what the failed import left
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in _OPERATORS:
        if not hasattr(torch.ops.torchvision, name):
            signature = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(signature)  # type: ignore[no-untyped-call]
    _stand_ins.append(library)
    return _imported()


def _imported() -> Any:
    with warnings.catch_warnings(), slow_modules_later():
        warnings.simplefilter("ignore")  # of an image library of torchvision's that is not used
        import torchvision
    return torchvision


def timm_net(name: str) -> nn.Module:
    """Return timm's model with random weights, which are then replaced."""
    timm = import_timm()
    plain = name.removeprefix(TIMM)
    if not timm.is_model(plain):
        close = timm.list_models(f"*{plain.split('.')[0]}*")[:3]
        like = f", such as {', '.join(close)}" if close else ""
        raise NetError(
            f"timm {timm.__version__} has no model {plain!r}; timm.list_models() names them{like}"
        )
    with torch.random.fork_rng(devices=[]):
        net: nn.Module = timm.create_model(plain, pretrained=False)
    return net


def preprocessing_of(net: nn.Module) -> dict[str, Any]:
    """Return size, interpolation, crop, mean and deviation of a timm model's own config."""
    known: dict[str, Any] = getattr(net, "pretrained_cfg", {})
    size = known.get("test_input_size") or known["input_size"]
    bilinear = known.get("interpolation") == "bilinear"
    return {
        "size": int(size[-1]),
        "interpolation": "bilinear" if bilinear else "bicubic",
        "crop": float(known.get("test_crop_pct") or known.get("crop_pct") or 1.0),
        "mean": tuple(map(float, known["mean"])),
        "deviation": tuple(map(float, known["std"])),
    }


def hub_file(name: str) -> str:
    """Return timm's own weights of a model, downloaded once by huggingface_hub."""
    known: dict[str, Any] = getattr(timm_net(name), "pretrained_cfg", {})
    repository = known.get("hf_hub_id")
    otherwise = "give a file or an installed package with net_weights (--net-weights)"
    if not repository:
        raise NetError(f"timm's hub has no weights of {name}; {otherwise}")
    from huggingface_hub import constants, hf_hub_download

    filename = known.get("hf_hub_filename") or "model.safetensors"
    reason = ""
    for local in (True, False):  # what is here already needs no network
        try:
            if not local:
                _look_up(constants.ENDPOINT)
            return str(hf_hub_download(repository, filename, local_files_only=local))
        except Exception as error:  # a network fails in many ways
            reason = (str(error).splitlines() or [type(error).__name__])[0]
    raise NetError(
        f"the weights of {name} cannot be downloaded from {constants.ENDPOINT}/{repository} "
        f"({reason[:200]}); {otherwise}"
    )


def _look_up(address: str) -> None:
    """Fail at once where there is no network: the hub's own client tries for a minute."""
    if not urllib.request.getproxies():  # a proxy looks names up itself
        socket.getaddrinfo(urllib.parse.urlsplit(address).hostname, 443)
