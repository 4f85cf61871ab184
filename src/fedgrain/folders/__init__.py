"""A user's own images: the manifest, its mistakes, copies, and what a data manager asks."""

from __future__ import annotations

__all__: list[str] = []
