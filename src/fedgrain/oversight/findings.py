"""What a check of a site finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str
    good: bool
    text: str  # what was found and, if it is bad, what to do
