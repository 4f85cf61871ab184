"""Flower's SuperExec at a site: ``python -m fedgrain.membership.messenger`` with its options.

Flower starts a program for every message, which takes seconds to load. This forks instead: the copy
has Flower loaded, passes one message on to the site's worker and ends. It runs no code of the app:
only the config and the taxonomy in it are read, by the fedgrain that is installed here. It takes
no other kind of task than messages to a site.
"""

from __future__ import annotations

import os
import select
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flwr.clientapp import ClientApp
from flwr.common.config import get_project_dir
from flwr.supercore.cli.flower_superexec import flower_superexec
from flwr.supercore.constant import TaskType
from flwr.supercore.exit import exit_handler
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
from flwr.supernode.runtime import run_clientapp

from fedgrain.deployment.entry_points import client_app
from fedgrain.handover.passing import PACKAGE
from fedgrain.handover.watching import end_with
from fedgrain.membership.supernode import SUPERNODE

LOOK_SECONDS = "1.0"  # between two questions for a task, unless the SuperNode wakes us
LOOK_VARIABLE = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"


class Clock:
    """The module ``time`` as Flower's SuperExec sees it: a byte on standard input ends a sleep."""

    def sleep(self, seconds: float) -> None:
        """Wait until there is a message, or so long."""
        if select.select([0], [], [], seconds)[0] and not os.read(0, 4096):
            time.sleep(seconds)  # nobody can wake us

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class ForkingExecutor:
    """Runs each task in a copy of this process."""

    def get_eligible_capacity(
        self, supported_task_types: set[TaskType], **_: Any
    ) -> tuple[set[TaskType], set[str]]:
        """Take messages to a site, and nothing else."""
        return supported_task_types & {TaskType.CLIENT_APP}, set()

    def wait_for_capacity(self, task_type: TaskType | None = None, **_: Any) -> None:
        """There is always room for a message: Flower brings one at a time."""

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Fork; the copy answers the message and ends."""
        if os.fork():
            return LaunchResult.accepted()
        code = 1
        try:
            exit_handler.registered_exit_handlers.clear()  # those of the SuperExec
            run_clientapp.run_clientapp(
                spec.runtime_api_address,
                spec.token,
                insecure=spec.insecure,
                parent_pid=os.getppid(),
                runtime_dependency_install=False,
            )
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def reconcile(self) -> None:
        """Forget copies that have ended."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def close(self) -> None:
        """Nothing is kept."""


def installed_app(**_: Any) -> Callable[[str, str, str], ClientApp]:
    """Return what loads an app: our own answers, on the config and taxonomy of the app."""

    def load(fab_id: str, fab_version: str, fab_hash: str) -> ClientApp:
        return client_app(get_project_dir(fab_id, fab_version, fab_hash) / PACKAGE)

    return load


def main() -> None:
    """Run Flower's SuperExec with these two parts."""
    # its parent may have ended by now: then its number tells, and the parent's is another
    end_with(int(os.environ.get(SUPERNODE, os.getppid())))
    os.environ.setdefault(LOOK_VARIABLE, LOOK_SECONDS)
    setattr(run_superexec, "time", Clock())  # noqa: B010
    setattr(run_superexec, "get_executor", lambda *_, **__: ForkingExecutor())  # noqa: B010
    setattr(run_clientapp, "get_load_client_app_fn", installed_app)  # noqa: B010
    flower_superexec()


if __name__ == "__main__":
    main()
