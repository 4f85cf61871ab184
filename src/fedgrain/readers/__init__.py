"""Readers of the formats that users come with, one file each; the catalogue names them."""

from __future__ import annotations

__all__: list[str] = []
