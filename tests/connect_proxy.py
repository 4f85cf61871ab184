"""A proxy as an IT department has one: it lets TLS through by CONNECT, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class ConnectProxy:
    """Listens on loopback; ``asked`` are the first lines of all requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ConnectProxy:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._safely, args=(client,), daemon=True).start()

    def _safely(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either side may go at any time
            self._one(client)

    def _one(self, client: socket.socket) -> None:
        with client:
            line = _first_line(client)
            self.asked.append(line)
            method, _, target = line.partition(" ")
            if method != "CONNECT":
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            host, _, port = target.split()[0].rpartition(":")
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pass, args=(server, client), daemon=True)
                back.start()
                _pass(client, server)
                back.join()


def _first_line(client: socket.socket) -> str:
    head = b""
    while not head.endswith(b"\r\n\r\n") and (more := client.recv(1)):
        head += more
    return head.split(b"\r\n")[0].decode()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
