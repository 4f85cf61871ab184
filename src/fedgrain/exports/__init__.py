"""A trained model for other programs: ONNX, torch.export, a folder for Hugging Face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["HubModel", "export"]

if TYPE_CHECKING:
    from fedgrain.exports.exporting import export
    from fedgrain.exports.hub_model import HubModel
else:
    __getattr__, __dir__ = lazy_names(__name__, {"HubModel": "hub_model", "export": "exporting"})
