"""What a writer of a format gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedgrain.models.trained_model import TrainedModel


@dataclass(frozen=True, eq=False)
class Exported:
    """A model on its way out: the run it comes from, if known, and what its owner says of it."""

    model: TrainedModel
    folder: Path | None = None
    licence: str | None = None  # as the Hugging Face Hub spells it: apache-2.0, cc-by-4.0
