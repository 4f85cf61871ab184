"""The review's web server: on this machine only, for who has the address, and for nothing else.

Requests are refused unless they name this server (against DNS rebinding), carry the token of its
address, and come from its own page (against other pages in the same browser). Images are given by
the number of their row and are drawn anew, so that no file is ever sent as it is.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fedgrain.errors import FedgrainError
from fedgrain.images.decode import why_unreadable
from fedgrain.images.whole_picture import whole_picture
from fedgrain.parsing import parse_json
from fedgrain.refinement.review_page import review_page
from fedgrain.refinement.review_session import ReviewSession

HOST = "127.0.0.1"
_MOST_BODY = 10_000  # bytes
_MOST_QUERY = 200  # characters of a name that is looked for
_SIDE = 480  # pixels of a picture
_PATIENCE = 30  # seconds for a request


class ReviewServer(ThreadingHTTPServer):
    """Serves one review; a thread writes the manifest whenever answers have come in."""

    daemon_threads = True

    def __init__(self, session: ReviewSession, port: int = 0) -> None:
        self.session, self.token = session, secrets.token_urlsafe(24)
        self.page, self.policy = review_page(session.asked.manifest.name, session.asked.annotator)
        self.working = threading.Lock()  # the session knows one thread at a time
        self.drawing = threading.Lock()  # Pillow's warnings are of the whole process
        self._changed, self._closing = threading.Event(), False
        super().__init__((HOST, port), _Handler)
        session.write()
        self._writer = threading.Thread(target=self._keep_written)
        self._writer.start()

    @property
    def origin(self) -> str:
        """How a browser names this server."""
        return f"http://{HOST}:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The address to open."""
        return f"{self.origin}/{self.token}/"

    def changed(self) -> None:
        """Have the manifest written; every answer is in the log already."""
        self._changed.set()

    def _keep_written(self) -> None:
        while not self._closing:
            self._changed.wait()
            self._changed.clear()
            with self.working:
                rows = list(self.session.answered_rows())
            self.session.write(rows)

    def server_close(self) -> None:
        """Close, with the manifest written."""
        super().server_close()
        self._closing = True
        self._changed.set()
        self._writer.join()


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ReviewServer
    timeout = _PATIENCE
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fedgrain", ""

    def do_GET(self) -> None:
        """Give the page, its state, the names that fit a text, or a picture."""
        self._respond(self._get)

    def do_POST(self) -> None:
        """Take an answer, or take one back."""
        self._respond(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the address holds the token."""

    def _respond(self, work: Any) -> None:
        try:
            kind, content = work(self._checked_path())
            self._send(HTTPStatus.OK, kind, content)
        except _RefusedError as refused:
            self._send_problem(refused.status, str(refused))
        except FedgrainError as error:
            self._send_problem(HTTPStatus.BAD_REQUEST, str(error))

    def _checked_path(self) -> str:
        """Return the path behind the token; refuse a request that is not from our own page."""
        own = self.server.origin
        if self.headers.get_all("Host") != [own.removeprefix("http://")]:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "this server has another name")
        if self.headers.get("Origin", own) != own:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "a request from another page")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "a request from another page")
        _, _, rest = self.path.partition("/")
        token, slash, path = rest.partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "open the address that was printed")
        return path

    def _get(self, path: str) -> tuple[str, bytes]:
        asked = urlsplit(path)
        if path == "":
            return "text/html; charset=utf-8", self.server.page
        if path == "state":
            return self._state({})
        if asked.path == "nodes":
            return self._nodes(parse_qs(asked.query))
        kind, _, number = path.partition("/")
        if kind == "image":
            return self._image(_whole_number(number))
        raise _RefusedError(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _post(self, path: str) -> tuple[str, bytes]:
        content = self._body()
        with self.server.working:
            session = self.server.session
            if path == "undo":
                found: Any = session.undo()
            elif path == "answer":
                number, answer, label = (content.get(n) for n in ("row", "answer", "label"))
                if type(number) is not int or not isinstance(answer, str):
                    raise _RefusedError(HTTPStatus.BAD_REQUEST, "give a row and an answer")
                found = session.answer(number, answer, label if isinstance(label, str) else "")
            else:
                raise _RefusedError(HTTPStatus.NOT_FOUND, "there is nothing here")
            reply = {"item": found, "numbers": session.numbers()}
        self.server.changed()
        return "application/json", json.dumps(reply).encode()

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        size = int(length) if length.isascii() and length.isdigit() else -1
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON")
        if not 0 <= size <= _MOST_BODY or "Transfer-Encoding" in self.headers:
            raise _RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {_MOST_BODY} bytes"
            )
        text = self.rfile.read(size).decode("utf-8", "replace")
        content = parse_json(text, "the request")
        if not isinstance(content, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "send a JSON object")
        return content

    def _state(self, more: dict[str, Any]) -> tuple[str, bytes]:
        with self.server.working:
            session = self.server.session
            state = {"numbers": session.numbers(), "groups": session.batch(), **more}
        return "application/json", json.dumps(state).encode()

    def _nodes(self, query: dict[str, list[str]]) -> tuple[str, bytes]:
        text, row = query.get("text", [""])[0][:_MOST_QUERY], query.get("row", [""])[0]
        with self.server.working:
            number = self._row(_whole_number(row))
            found = self.server.session.matches(text, number)
        return "application/json", json.dumps({"nodes": found}).encode()

    def _image(self, number: int) -> tuple[str, bytes]:
        file = self.server.session.files[self._row(number)]
        if file.problem:
            raise _RefusedError(HTTPStatus.NOT_FOUND, file.problem)
        try:
            with self.server.drawing:
                return "image/jpeg", whole_picture(file.path, _SIDE)
        except Exception as error:  # decoders raise anything on damaged files
            why = why_unreadable(file.path, error)
            raise _RefusedError(HTTPStatus.NOT_FOUND, why) from None

    def _row(self, number: int) -> int:
        if not 0 <= number < len(self.server.session.rows):
            raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such row")
        return number

    def _send_problem(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # what is left of the request is not read
        self._send(status, "application/json", json.dumps({"problem": why}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", self.server.policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cache-Control", "private, max-age=600" if kind == "image/jpeg" else "no-store"),
        ):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _RefusedError(HTTPStatus.NOT_FOUND, "there is nothing here")
    return int(text)
