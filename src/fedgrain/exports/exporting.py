"""``export``: a finished run, or a model, to a file or folder of another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedgrain.arithmetic import one_thread
from fedgrain.catalogue import EXPORTS
from fedgrain.errors import ExportError
from fedgrain.exports.exported import Exported
from fedgrain.models.model_folder import load
from fedgrain.models.trained_model import TrainedModel
from fedgrain.plugins import Trust, load_callable


def export(
    run: str | Path | TrainedModel,
    format: str,
    out: str | Path | None = None,
    *,
    licence: str | None = None,
    trust_code: Trust = False,
    net_weights: str | None = None,
) -> dict[str, Any]:
    """Write a model in another format, and return what was written and how closely it agrees.

    ``run`` is the folder of a finished run, or a model. ``format`` is one of the catalogue's
    ``EXPORTS``. ``out`` is a file, for `huggingface` a new folder (*default*: in the run's folder).
    The written model is checked against our own prediction; if it differs, nothing is written.
    """
    if format not in EXPORTS:
        raise ExportError(f"there is no format {format!r}; choose one of {', '.join(EXPORTS)}")
    entry = EXPORTS[format]
    folder = None if isinstance(run, TrainedModel) else Path(run)
    if out is None:
        if folder is None:
            raise ExportError("a model has no folder of its own; say where to write with out")
        out = folder / entry.default
    place = Path(out)
    if not entry.folder and place.is_dir():
        raise ExportError(f"{place}: a folder; give a file, such as {place / entry.default}")
    write = load_callable(entry.home, "format", ExportError)
    model = run if isinstance(run, TrainedModel) else load(
        run, trust_code=trust_code, net_weights=net_weights
    )  # fmt: skip
    with one_thread():
        agreed = write(Exported(model, folder, licence), place)
    return {
        "format": format,
        "written": str(place),
        "bytes": sum(path.stat().st_size for path in _files(place)),
        "images_checked": agreed.images,
        "largest_difference": agreed.largest_difference,
    }


def _files(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.is_file()] if place.is_dir() else [place]
