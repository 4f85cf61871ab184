"""Safetensors files with metadata and a checksum over everything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.checksums import BLANK, damaged, is_intact, sealed, warn_unchecked
from fedgrain.errors import FedgrainError, RunError
from fedgrain.files import read_bytes, written_whole
from fedgrain.parsing import parse_json

if TYPE_CHECKING:
    from torch import Tensor

AGAIN = "copy the run folder again"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors as safetensors with their checksum, whole or not at all."""
    import torch
    from safetensors.torch import save

    plain = {
        name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
    }
    # one text: safetensors writes several in any order
    text = json.dumps({"sha256": BLANK, **about})
    with written_whole(path) as aside:
        aside.write_bytes(sealed(save(plain, metadata={"about": text})))


def read_tensors(path: Path, advice: str = AGAIN) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and their metadata, and check both."""
    import safetensors
    from safetensors.torch import load

    try:
        raw = read_bytes(path)
    except FileNotFoundError:
        raise RunError(f"{path}: there is no such file; {AGAIN}") from None
    about = about_of(path, raw, advice)
    try:
        return load(raw), about
    except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise _not_whole(path, str(error), advice) from None


def about_of(path: Path, raw: bytes, advice: str = AGAIN) -> dict[str, Any]:
    """Check the content of a file and return its metadata.

    A file of an older version has its format next to the metadata, and no checksum.
    """
    size = int.from_bytes(raw[:8], "little")
    try:
        header = parse_json(raw[8 : 8 + size].decode(), path, RunError)
    except (FedgrainError, UnicodeDecodeError):
        raise _not_whole(path, "its header cannot be read", advice) from None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    old = "format" in metadata
    about = parse_json(str(metadata.get("about", "{}")), path, RunError, advice)
    if not isinstance(about, dict):
        raise damaged(path, advice, RunError)
    checksum = about.pop("sha256", None)
    if old and checksum is None:
        warn_unchecked(path)
        return {**about, "format": metadata["format"]}
    if not is_intact(raw, checksum):
        raise damaged(path, advice, RunError)
    return about


def _not_whole(path: Path, why: str, advice: str) -> RunError:
    return RunError(f"{path}: not a whole safetensors file ({why}); {advice}")
