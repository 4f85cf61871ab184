"""Where the weights of a model's trunk are: in its folder, or elsewhere with the same hash."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from fedgrain.errors import NetError, RunError
from fedgrain.files import written_whole
from fedgrain.trunks import TrunkSpec, find_weights

EMBEDDED = "trunk.weights"  # a copy of the file of weights, in the folder of a model
HUB_TRUNK = "trunk.safetensors"  # in a folder for the Hugging Face Hub


def here(trunk: TrunkSpec, folder: Path, given: str | None = None) -> TrunkSpec:
    """Return the trunk with the place of its weights on this machine.

    They are looked for where ``given`` says; or else in the model's folder, and where they were in
    training. A file with another SHA-256 is refused.
    """
    if given is not None:
        return replace(trunk, weights=str(find_weights(trunk.net, given, trunk.sha256).path))
    embedded = [file for name in (EMBEDDED, HUB_TRUNK) if (file := folder / name).exists()]
    place = str(embedded[0]) if embedded else trunk.found_as or None
    try:
        return replace(trunk, weights=str(find_weights(trunk.net, place, trunk.sha256).path))
    except NetError as error:
        raise RunError(f"{folder}: the trunk of its model is not here: {error}") from None


def embed(trunk: TrunkSpec, folder: Path) -> None:
    """Copy the weights into a model's folder, whole or not at all."""
    with written_whole(folder / EMBEDDED) as aside:
        shutil.copyfile(trunk.weights, aside)
