"""One progress bar at a time, on standard error."""

from __future__ import annotations

import sys
from typing import Any


class OneBar:
    """Holds the bar that is shown; showing another closes it."""

    bar: Any = None

    def show(self, what: str, total: int, done: int, unit: str) -> None:
        """Show a bar that starts at ``done`` of ``total``."""
        from tqdm import tqdm

        self.close()
        self.bar = tqdm(total=total, initial=done, unit=unit, desc=what, file=sys.stderr)

    def close(self) -> None:
        """Close the bar, if there is one."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
