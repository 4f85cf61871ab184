"""What every HTML page is made of: blocks, tables, templates; and the page of predictions."""

from __future__ import annotations

__all__: list[str] = []
