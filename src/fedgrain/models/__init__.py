"""Trained models: net, head, tree and preprocessing, in a folder that predicts anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["Prediction"]

if TYPE_CHECKING:
    from fedgrain.models.trained_model import Prediction
else:
    __getattr__, __dir__ = lazy_names(__name__, {"Prediction": "trained_model"})
