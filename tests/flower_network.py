"""A real SuperLink, gate and real SuperNodes on loopback, each in a process group that is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import fedgrain

TESTS = Path(__file__).parent
BIN = Path(sys.executable).parent
# the processes import the fedgrain that is tested, wherever another is installed
PYTHONPATH = os.pathsep.join([str(TESTS), str(Path(fedgrain.__file__).parents[1])])
LIMIT = 180.0  # seconds nothing here may take longer than
SELF_ENDING = ("flower-superexec", "flwr-serverapp")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], bool], what: str, seconds: float = LIMIT) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} seconds"
        time.sleep(0.1)


def found_program(name: str) -> Path | str:
    """Return a program of ours or Flower's; others (env, nginx) are found by the path."""
    return BIN / name if (BIN / name).exists() else name


class Started:
    """One process of Flower's, with all it starts."""

    def __init__(
        self, command: list[str], log: Path, environment: dict[str, str], place: Path
    ) -> None:
        self.log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment,
                stdin=subprocess.DEVNULL, start_new_session=True, cwd=place,
            )  # fmt: skip

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End it and its children at once, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
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


def nothing_left(marker: str) -> None:
    """Wait until no process with this text in its environment is left, or say which are.

    What stands in a process group of ours was killed with it and is gone at once. The SuperLink's
    helper and the ServerApp are in a session of their own: they find out by themselves that it is
    gone, finish what they are at (on a busy machine an import of torch) and give up calling it
    after some seconds, so for these there is the limit of everything that has to do with load.
    """
    began = time.monotonic()
    while left := processes_with(marker):
        waited = time.monotonic() - began
        for process in left:
            command = command_of(process)
            limit = LIMIT if any(name in command for name in SELF_ENDING) else 30.0
            assert not command or waited < limit, f"left behind: {command} ({state_of(process)})"
        time.sleep(0.2)


def state_of(process: int) -> str:
    """Say what a process is doing and whose child it is, for whoever finds it left behind."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        waits = Path(f"/proc/{process}/wchan").read_text()
    except OSError:
        return "it has ended"
    told = [line for line in lines if line.startswith(("State", "PPid", "SigIgn", "NSsid"))]
    return ", ".join([*told, f"wchan {waits}"]).replace("\t", " ")


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


class Network:
    """A SuperLink and its SuperNodes; leaving the context ends all of them."""

    def __init__(
        self,
        folder: Path,
        home: Path | None = None,
        link: list[str] | None = None,
        port: int = 0,
        gate: list[str] | None = None,
        gate_port: int = 0,
    ) -> None:
        self.folder, self.port = folder, port or free_port()
        self.gate_command, self.gate_port = gate, gate_port
        self.address = f"127.0.0.1:{self.port}"
        self.link_command = link or [
            "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(self.port),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        self.home = home or folder / "home"
        if home is None:
            self.home.mkdir(parents=True)
            (self.home / "config.toml").write_text(
                f'[superlink]\ndefault = "fedgrain"\n\n[superlink.fedgrain]\n'
                f'address = "{self.address}"\ninsecure = true\n'
            )
        self.started: list[Started] = []
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(self.home),
            "PYTHONPATH": PYTHONPATH,
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }

    def __enter__(self) -> Network:
        try:
            self.start_server()
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

    def start_server(self) -> None:
        """Start the SuperLink, and the gate before it if there is one."""
        self.link = self.start("superlink", self.link_command)
        wait_until(lambda: self._listens(self.link, self.port), "the SuperLink listens", 60)
        if self.gate_command:
            self.gate = self.start("gate", self.gate_command)
            wait_until(lambda: self._listens(self.gate, self.gate_port), "the gate listens", 30)

    def start(
        self, name: str, command: list[str], place: Path | None = None, **environment: str
    ) -> Started:
        """Start a command of Flower's in a folder; its log is NAME.log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(found_program(command[0])), *command[1:]]
        log, variables = self.folder / f"{name}.log", {**self.environment, **environment}
        self.started.append(Started(command, log, variables, place or self.folder))
        return self.started[-1]

    def call(
        self, name: str, command: list[str], seconds: float = 60, place: Path | None = None
    ) -> str:
        """Run a command to its end and return what it said."""
        started = self.start(name, command, place)
        wait_until(lambda: started.process.poll() is not None, name, seconds)
        assert started.process.returncode == 0, started.text()
        return started.text()

    def node(self, name: str, settings: str) -> Started:
        """Start a SuperNode without TLS."""
        return self.start(
            name,
            [
                "python", "-m", "fedgrain.membership.supernode", "--insecure",
                "--superlink", self.address, "--port", str(free_port()),
                "--node-config", f"{settings} trust-code=true",
            ],
        )  # fmt: skip

    def run(self, app: Path, name: str, settings: str | None = None) -> Started:
        """Start a run; its log is streamed."""
        changed = ["-c", settings] if settings else []
        return self.start(name, ["flwr", "run", str(app), "fedgrain", "--stream", *changed])

    def _listens(self, started: Started, port: int) -> bool:
        assert started.process.poll() is None, started.text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0
