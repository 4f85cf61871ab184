"""Pictures of trees, studies and maps, as files and as interactive plots."""

from __future__ import annotations

__all__: list[str] = []
