"""Labels made finer: what a model proposes below a coarse label, and a page where people review it.

Everything here happens where the images are; nothing is sent anywhere.
"""

from __future__ import annotations

__all__: list[str] = []
