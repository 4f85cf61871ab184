"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WITH_TAXONOMY = ("glyphs", "cifar100", "tiny-imagenet", "imagenet")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``: one JSON object on standard output."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on standard output"
    )


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(content, indent=2, ensure_ascii=False))
