"""A site's worker: a real process, over its real socket, as the process of a message sees it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.app import RecordDict

from fedgrain import Config
from fedgrain.deployment.app import App, write_app
from fedgrain.deployment.server_settings import Operation
from fedgrain.engines import BuiltModel
from fedgrain.errors import DeploymentError
from fedgrain.federated.averaging import State
from fedgrain.handover import passing, private_socket
from fedgrain.handover.frames import FrameError, receive
from fedgrain.handover.passing import Request, TooLateError, pass_on, socket_path
from fedgrain.messages.parcels import content_of, parcel_of
from fedgrain.messages.wire import pack
from fedgrain.sites.answers import Answering
from fedgrain.sites.site import prepare_site
from fedgrain.taxonomy import read_csv
from flower_federation import TREE, write_site
from flower_network import PYTHONPATH, command_of, wait_until

CONFIG = Config(
    dataset="folder", net="flower_parts:Net", head="flat-softmax", image_size=32, rounds=2,
    join_ratio=1.0, batch=16, partition="manifest", knowledge="inferred", validation="clients",
    supervision="learned", labeller="siblings",  # learned anew by the worker that comes after
).complete()  # fmt: skip


class Place:
    """A site's files, the process its worker ends with, and the weights to train."""

    def __init__(self, folder: Path) -> None:
        (folder / "tree.csv").write_text(TREE)
        tree = read_csv(folder / "tree.csv")
        write_app(folder / "app", App(CONFIG, tree), Operation(["museum"], folder / "run"))
        images = write_site(folder / "museum", ["a1", "a2", "b", "c"] * 4)
        self.folder, self.package = folder, folder / "app" / "fedgrain_app"
        self.node = {"site": "museum", "images": str(images), "trust-code": True}
        self.settings = {"sites": '["museum"]', "count-rounding": 1}
        prepared = prepare_site(App.read(self.package), "museum", images)
        model = BuiltModel(prepared.spec, tree, (32, 32, 3), CONFIG.seed)
        self.initial: State = model.initial
        self.node_process = subprocess.Popen(["sleep", "600"])

    def request(self, kind: str) -> Request:
        return Request(kind, str(self.package), self.node, self.settings, "7", "message")

    def work(self) -> RecordDict:
        return pack({None: self.initial}, round=12, client=0)

    def worker(self) -> int:
        """Return the process that listens, as the kernel says."""
        found = private_socket.connect(socket_path(self.node, self.node_process.pid))
        if found is None:
            return 0
        with found:
            raw = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return int(struct.unpack("3i", raw)[0])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    found = Place(tmp_path_factory.mktemp("site"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("private")))
        patch.setenv("PYTHONPATH", PYTHONPATH)
        patch.setenv("FEDGRAIN_TEST_FAULTS", str(found.folder))
        patch.setattr(passing.os, "getppid", lambda: found.node_process.pid)
        yield found
        found.node_process.kill()
        found.node_process.wait()
        for worker in passing._workers:
            worker.wait(60)


def gone(process: int) -> bool:
    """Return whether a process has ended; one that nobody has waited for has no command line."""
    return not command_of(process)


def arrays(answer: RecordDict) -> dict[str, bytes]:
    record = content_of(answer).array_records["whole"]
    return {name: array.data for name, array in record.items()}


def test_a_message_is_answered_to_the_same_bits_though_its_worker_is_killed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = Answering()
    late = answering.answer(place.request("train"), place.work(), lambda: False)
    assert late.config_records["failed"]["fault"] == "TooLateError"
    assert answering._opened is not None  # what took so long to open serves the next message
    expected = arrays(answering.answer(place.request("train"), place.work()))
    counts = content_of(pass_on(place.request("query"), RecordDict(), 120.0))
    assert counts.config_records["about"]["site"] == "museum"
    first = place.worker()
    parcel = parcel_of(place.work())
    assert arrays(pass_on(place.request("train"), parcel, 120.0)) == expected
    parcel.config_records["parcel"]["index"] = "[]"  # as damaged on the way
    damaged = content_of(pass_on(place.request("train"), parcel, 120.0))
    assert damaged.config_records["failed"]["fault"] == "ValueError"
    assert place.worker() == first  # it stays
    (place.folder / "hang").touch()
    answers: list[RecordDict] = []
    waiting = threading.Thread(
        target=lambda: answers.append(pass_on(place.request("train"), place.work(), 120.0))
    )
    waiting.start()
    wait_until((place.folder / "hanging").exists, "it trains")
    (place.folder / "hang").unlink()
    os.kill(first, signal.SIGKILL)
    waiting.join(120)
    assert arrays(answers[0]) == expected
    second = place.worker()
    assert second not in (0, first)
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: gone(second), "the second is gone")
    start, starts = subprocess.Popen, list[Any]()

    def stillborn(*arguments: Any, **named: Any) -> Any:
        starts.append(start(*arguments, **named))
        if len(starts) == 1:  # killed before it listens
            starts[0].kill()
        return starts[-1]

    with monkeypatch.context() as patch:
        patch.setattr(passing.subprocess, "Popen", stillborn)
        assert arrays(pass_on(place.request("train"), place.work(), 120.0)) == expected
    second = place.worker()
    assert second == starts[1].pid and len(starts) == 2

    (place.folder / "hang").touch()
    with pytest.raises(TooLateError):
        pass_on(place.request("train"), place.work(), 1.0)
    (place.folder / "hang").unlink()
    wait_until(lambda: gone(second), "a worker nobody waits for ends", 60)
    pass_on(place.request("query"), RecordDict(), 120.0)
    third = place.worker()
    place.node_process.kill()
    place.node_process.wait()
    wait_until(lambda: gone(third), "the worker ends with the SuperNode", 60)


def test_only_the_sites_user_can_open_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = private_socket.private_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    with private_socket.listen(folder / "one.sock") as server:
        assert (folder / "one.sock").stat().st_mode & 0o777 == 0o600
        client = private_socket.connect(folder / "one.sock")
        assert client is not None and private_socket.same_user(client)
        monkeypatch.setattr(private_socket.os, "getuid", lambda: 12345)
        other, _ = server.accept()
        assert not private_socket.same_user(other)
        with pytest.raises(DeploymentError, match="belongs to another user"):
            private_socket.connect(folder / "one.sock")
        monkeypatch.undo()
        client.close()
        other.close()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder.chmod(0o755)
    with pytest.raises(DeploymentError, match="mode 0700"):
        private_socket.private_folder()


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">QQ", 2**40, 0),  # would reserve a terabyte
        struct.pack(">QQ", 2, 2**60) + b"{}",
        struct.pack(">QQ", 2, 0) + b"{}",
        struct.pack(">QQ", 9, 0) + b"not JSON!",
        struct.pack(">QQ", 100, 0) + b"{",
        struct.pack(">QQ", 61, 1)
        + b'{"about":{},"records":[["w","arrays",{"a":["f4",[1],"n",4]}]]}'[:61],
    ],
)
def test_a_frame_that_is_none_is_refused(frame: bytes) -> None:
    one, two = socket.socketpair()
    with one, two:
        one.sendall(frame)
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(FrameError):
            receive(two)


def test_the_process_of_a_message_loads_no_torch() -> None:
    code = (
        "import sys, fedgrain.membership.messenger\n"
        "print([name for name in ('torch', 'fedgrain.sites.site') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PYTHONPATH}, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
