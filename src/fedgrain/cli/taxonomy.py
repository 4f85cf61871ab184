"""``fedgrain taxonomy``: from a list of classes to the coarsened tree."""

from __future__ import annotations

import argparse
from typing import Any


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    commands.add_parser("taxonomy")
