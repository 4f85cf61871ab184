"""A frozen protocol to compare methods by: data, splits, knowledge, seeds, metrics and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedgrain.lazy import lazy_names

__all__ = [
    "Protocol",
    "Submission",
    "Track",
    "check_frozen",
    "check_predictions",
    "leaderboard_tables",
    "pack",
    "read_protocol",
    "read_submission",
]

if TYPE_CHECKING:
    from fedgrain.benchmark.frozen import check_frozen
    from fedgrain.benchmark.leaderboard import leaderboard_tables
    from fedgrain.benchmark.protocol import Protocol, Track, read_protocol
    from fedgrain.benchmark.submission import Submission, check_predictions, pack, read_submission
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Protocol": "protocol",
            "Submission": "submission",
            "Track": "protocol",
            "check_frozen": "frozen",
            "check_predictions": "submission",
            "leaderboard_tables": "leaderboard",
            "pack": "submission",
            "read_protocol": "protocol",
            "read_submission": "submission",
        },
    )
