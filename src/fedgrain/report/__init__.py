"""Report pages and figures. This room may import from all before it; only ``cli`` imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = ["write_report", "write_tree_page"]

if TYPE_CHECKING:
    from fedgrain.report.html import write_report, write_tree_page
else:
    __getattr__, __dir__ = lazy_names(__name__, {"write_report": "html", "write_tree_page": "html"})
