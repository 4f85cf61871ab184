"""``--format huggingface``: a folder for the Hugging Face Hub, read by ``fedgrain.load`` too."""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save

from fedgrain.errors import ExportError
from fedgrain.exports.agreement import Agreement, check_agreement
from fedgrain.exports.exported import Exported
from fedgrain.exports.model_card import model_card
from fedgrain.files import sync_folder, write_text, written_whole
from fedgrain.models.model_folder import load
from fedgrain.models.trained_model import HUB_FILES
from fedgrain.models.trunk_place import HUB_TRUNK
from fedgrain.trunks.loading import load_whole
from fedgrain.trunks.spec import TrunkSpec
from fedgrain.trunks.weights import Weights

CARD = "README.md"


def write_huggingface(exported: Exported, out: Path) -> Agreement:
    """Write a new folder, once the model that is read from it answers as ours does."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out}: exists already; choose a new folder with --out")
    with _new_folder(out) as aside:
        write_hub_files(exported, aside)
        read = load(aside, trust_code=True)  # the code it names is running already

        def run(images: NDArray[np.uint8]) -> NDArray[Any]:
            return np.asarray(read.node_log_probs(images).exp().cpu())

        return check_agreement("the folder for Hugging Face", run, exported.model)


def write_hub_files(exported: Exported, folder: Path) -> None:
    """Write the model, its trunk and its card into a folder."""
    model = exported.model
    if model.trunk is not None:
        model = replace(model, trunk=_trunk_beside(model.trunk, folder))
    model.save(folder, model.net.state_dict(), HUB_FILES)
    write_text(folder / CARD, model_card(exported))


def _trunk_beside(trunk: TrunkSpec, folder: Path) -> TrunkSpec:
    """Write the trunk's weights as safetensors, whatever they came as, and describe that file."""
    whole = load_whole(trunk.net, Weights(Path(trunk.weights), trunk.sha256))
    place = folder / HUB_TRUNK
    raw = save({name: value.contiguous() for name, value in whole.state_dict().items()})
    with written_whole(place) as aside:  # save_file would let only its owner read it
        aside.write_bytes(raw)
    return replace(trunk, weights=str(place), found_as="", sha256=hashlib.sha256(raw).hexdigest())


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder beside ``out`` that takes its name on success, and is removed otherwise."""
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    aside.mkdir()
    try:
        yield aside
        aside.rename(out)  # an empty folder gives way
        sync_folder(out.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
