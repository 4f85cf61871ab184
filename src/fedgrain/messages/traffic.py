"""The cost of exchanges with the sites."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from flwr.app import RecordDict

from fedgrain.messages.replies import seconds_of


@dataclass
class Traffic:
    """The cost of a round's exchanges: messages and bytes of arrays, both ways, and time."""

    messages: int = 0
    bytes: int = 0
    exchange_seconds: float = 0.0
    site_seconds: float = 0.0  # of the slowest site of each exchange, as reported

    def add(
        self, sent: Collection[RecordDict], replies: Collection[RecordDict], seconds: float
    ) -> None:
        """Count one exchange."""
        arrays = [
            array
            for content in (*sent, *replies)
            for record in content.array_records.values()
            for array in record.values()
        ]
        times = [seconds_of(reply) or 0.0 for reply in replies]
        self.messages += len(sent) + len(replies)
        self.bytes += sum(len(array.data) for array in arrays)
        self.exchange_seconds += seconds
        self.site_seconds += max(times, default=0.0)
