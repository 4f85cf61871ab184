"""torch.export of a whole model, for any number of images."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch

from fedgrain.errors import ExportError, FedgrainError
from fedgrain.exports.agreement import drawn_images
from fedgrain.exports.whole_model import WholeModel
from fedgrain.models.trained_model import TrainedModel

IMAGES = "images"  # the input, and the name of its first dimension
PROBABILITIES = "probabilities"  # the output


def traced(model: TrainedModel) -> Any:
    """Return the model as a program of torch.export, with the number of images left open."""
    example = torch.from_numpy(drawn_images(model.image_shape, count=4))
    free = {IMAGES: {0: torch.export.Dim(IMAGES)}}
    parts = f"net {model.net_name} with head {model.head_name}"
    with quiet(), _explained(parts):
        return torch.export.export(WholeModel(model), (example,), dynamic_shapes=free)


def need(name: str, *packages: str) -> None:
    """Raise an error that says what to install if a package of an extra is missing."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise ExportError(
            f"the format {name} needs {', '.join(missing)}; pip install 'fedgrain[{name}]'"
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's warnings about its own changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _explained(parts: str) -> Iterator[None]:
    try:
        yield
    except FedgrainError:
        raise
    except Exception as error:  # a user's net may do anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "Constraints violated" in reason:
            reason = "it fixes the number of images: write x.shape[0] instead of len(x)"
        raise ExportError(f"{parts} cannot be exported by torch.export ({reason[:300]})") from None
