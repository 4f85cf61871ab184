"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import TRACKERS

if TYPE_CHECKING:
    from collections.abc import Mapping


def from_home(text: str) -> str:
    """Return an argument in which a ``~/`` at its start is the home folder.

    A shell does this for ``--out ~/x`` but not for ``--out=~/x``.
    """
    return str(Path(text).expanduser()) if text == "~" or text.startswith("~/") else text


def add_track(parser: argparse.ArgumentParser) -> None:
    """Add ``--track``: log every round to an experiment tracker."""
    parser.add_argument(
        "--track",
        choices=tuple(TRACKERS),
        help="also log the config and every round's metrics there (needs the extra of that name)",
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust-code``: run the code that a file names."""
    parser.add_argument(
        "--trust-code",
        action="store_true",
        help="run code (module:callable) that a file in the folder or the config names; only if "
        "you trust its author",
    )


def add_net_weights(parser: argparse.ArgumentParser) -> None:
    """Add ``--net-weights``: where the weights of a pretrained trunk are."""
    parser.add_argument(
        "--net-weights",
        metavar="FILE",
        help="weights of the model's pretrained trunk, if they are not where they were in training",
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
    """Raise an error that says how to install Flower if it is missing."""
    from importlib.util import find_spec

    from fedgrain.errors import DeploymentError

    if find_spec("flwr") is None or find_spec("cryptography") is None:
        raise DeploymentError("this needs Flower; install it with: pip install 'fedgrain[flower]'")
