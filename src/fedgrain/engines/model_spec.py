"""Which model is trained, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedgrain.heads import LossTerms
from fedgrain.trunks import TrunkSpec


@dataclass(frozen=True)
class ModelSpec:
    """Which net and head, and how labels are read; the names are those of the command line."""

    net: str
    head: str
    supervision: str = "paper"
    branch_supervision: str = "paper"
    laziness: float = 0.0
    responsibilities: str = "step"  # or "round": labels are distributed over leaves once a round
    head_settings: Mapping[str, Any] = field(default_factory=dict)  # of build_head
    restricted_softmax: float | None = None  # FedRS
    logit_calibration: float = 0.0  # FedLC
    terms: LossTerms = field(default_factory=LossTerms)  # beside the likelihood of a label
    trunk: TrunkSpec | None = None  # the pretrained net whose last part is trained
    labeller: str = "stops"  # how `learned` models a labeller
