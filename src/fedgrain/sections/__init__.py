"""A look at a trained model, section by section: sites, classes, labellers, calibration."""

from __future__ import annotations

__all__: list[str] = []
