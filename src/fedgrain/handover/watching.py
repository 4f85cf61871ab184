"""End this process when another one has ended."""

from __future__ import annotations

import os
import select
import threading
import time

_WATCH_SECONDS = 0.5


def end_with(process: int) -> None:
    """End this process when another one has ended, even in the middle of a message."""

    def watch() -> None:
        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            os._exit(0)
        except (AttributeError, OSError):  # not Linux, or an old one
            while _exists(process):
                time.sleep(_WATCH_SECONDS)
        else:
            select.select([descriptor], [], [])
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True
