"""A real SuperLink and real SuperNodes on loopback, each in a process group that is ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

TESTS = Path(__file__).parent
BIN = Path(sys.executable).parent
LIMIT = 150.0  # seconds nothing here may take longer than


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], bool], what: str, seconds: float = LIMIT) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} seconds"
        time.sleep(0.1)


class Started:
    """One process of Flower's, with all it starts."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End it and its children at once, as a power cut would."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


def processes_with(marker: str) -> list[int]:
    """Return the processes in whose environment a text stands."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            try:
                if marker.encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
    return found


class Network:
    """A SuperLink and its SuperNodes; leaving the context ends all of them."""

    def __init__(
        self, folder: Path, link: list[str] | None = None, node: list[str] | None = None
    ) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.link_options = link or ["--insecure"]
        self.node_options = node or ["--insecure"]
        self.home = folder / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.started: list[Started] = []
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(self.home),
            "PYTHONPATH": str(TESTS),
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }

    def __enter__(self) -> Network:
        try:
            self.link = self.start(
                "superlink",
                [
                    "flower-superlink", *self.link_options, "--host", "127.0.0.1",
                    "--port", str(self.port), "--disable-runtime-dependency-installation",
                ],
            )  # fmt: skip
            wait_until(self._listens, "the SuperLink listens", 60)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            for started in self.started:
                print(f"--- {started.log.name}\n{started.text()[-3000:]}", file=sys.stderr)
        self.close()

    def close(self) -> None:
        for started in self.started:
            started.kill()

    def start(self, name: str, command: list[str], **environment: str) -> Started:
        command = [str(BIN / command[0]), *command[1:]]
        log = self.folder / f"{name}.log"
        self.started.append(Started(command, log, {**self.environment, **environment}))
        return self.started[-1]

    def node(self, name: str, settings: str, *options: str, **environment: str) -> Started:
        return self.start(
            name,
            [
                "flower-supernode", *(options or self.node_options), "--superlink", self.address,
                "--port", str(free_port()), "--node-config", settings,
            ],
            **environment,
        )  # fmt: skip

    def run(self, app: Path, name: str, *options: str) -> Started:
        """Start a run; its log is streamed."""
        config = self.home / "config.toml"
        config.write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self.address}"\n'
            + ("insecure = true\n" if "--insecure" in self.link_options else
               f'root-certificates = "{self.link_options[1]}"\n')
        )  # fmt: skip
        return self.start(name, ["flwr", "run", str(app), "here", "--stream", *options])

    def _listens(self) -> bool:
        assert self.link.process.poll() is None, self.link.text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
