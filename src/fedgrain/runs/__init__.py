"""One run: its folder, its state, its result and what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["Tracking", "curve_of_run"]

if TYPE_CHECKING:
    from fedgrain.runs.operating_curve import curve_of_run
    from fedgrain.runs.tracking import Tracking
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"Tracking": "tracking", "curve_of_run": "operating_curve"}
    )
