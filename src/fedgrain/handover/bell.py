"""Wake the messenger as soon as there is a message: a byte on its standard input."""

from __future__ import annotations

import os
from contextlib import suppress


class Bell:
    """A pipe; the messenger has the end that hears as its standard input."""

    def __init__(self) -> None:
        self.heard, self._rung = os.pipe()
        os.set_blocking(self._rung, False)

    def ring(self) -> None:
        """Wake the messenger; it looks by itself as well, if more seldom."""
        with suppress(OSError):
            os.write(self._rung, b".")
