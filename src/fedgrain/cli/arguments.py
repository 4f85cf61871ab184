"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import TRACKERS

if TYPE_CHECKING:
    from collections.abc import Mapping


def add_track(parser: argparse.ArgumentParser) -> None:
    """Add ``--track``: metrics of every round where people already look."""
    parser.add_argument(
        "--track",
        choices=tuple(TRACKERS),
        help="log the config and every round's metrics there as well (an extra of the same name)",
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust-code``: what a file names may be run."""
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="run code (module:callable) that a file in the folder or the config names; only if "
        "you trust whoever wrote it",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``: one JSON object on standard output."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on standard output"
    )


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def need_flower() -> None:
    """Say how to install the extra where it is missing."""
    from importlib.util import find_spec

    from fedgrain.errors import DeploymentError

    if find_spec("flwr") is None or find_spec("cryptography") is None:
        raise DeploymentError("this needs Flower; install it with: pip install 'fedgrain[flower]'")
