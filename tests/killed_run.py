"""Run fedgrain and be killed with SIGKILL at a named point.

    python killed_run.py POINT FOLDER ARGUMENTS...

POINT is ``never``, ``seconds:X`` (after X seconds), or NAME:N for the N-th time a point is reached:
``training`` (a client begins), ``averaging`` (an update is added), ``metrics`` (a line is half
written), ``state`` (the state is written but not yet in place). The point is printed when it hits.
"""

import os
import signal
import sys
import threading
import time

from fedgrain import files
from fedgrain.cli import main
from fedgrain.engines import processes as process_engine
from fedgrain.federated import averaging
from fedgrain.runs import run_folder as folder

POINT, _, WHEN = (sys.argv[1] if len(sys.argv) > 1 else "never").partition(":")
reached = 0


def reach(point: str) -> None:
    global reached
    if point != POINT:
        return
    reached += 1
    if reached == int(WHEN):
        print(f"killed at {sys.argv[1]}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def before(owner: object, name: str, point: str) -> None:
    original = getattr(owner, name)

    def wrapped(*args: object, **kwargs: object) -> object:
        reach(point)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def half_a_line(self: folder.RunFolder, line: dict[str, object]) -> None:
    if POINT == "metrics" and reached + 1 == int(WHEN):
        with self.metrics.open("a") as file:
            file.write('{"stage": "fed')
    reach("metrics")
    whole_line(self, line)


def kill_later() -> None:
    time.sleep(float(WHEN))
    print(f"killed at {sys.argv[1]}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    whole_line = folder.RunFolder.add_line
    folder.RunFolder.add_line = half_a_line
    before(averaging.RunningAverage, "add", "averaging")
    before(process_engine.Job, "__init__", "training")
    original_replace = files.Path.replace

    def replace(self: files.Path, target: files.Path) -> object:
        if target.name == "state.safetensors":
            reach("state")
        return original_replace(self, target)

    files.Path.replace = replace
    if POINT == "seconds":
        threading.Thread(target=kill_later, daemon=True).start()
    sys.exit(main(["run", "--out", *sys.argv[2:]]))
