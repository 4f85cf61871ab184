"""A site's answers to messages: the site is opened once and kept open between them."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import MetricRecord, RecordDict

from fedgrain.arithmetic import one_thread
from fedgrain.deployment.app import App
from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server_settings import site_names
from fedgrain.errors import DeploymentError
from fedgrain.handover.passing import Request, TooLateError, failure, is_private
from fedgrain.messages.fingerprints import declined
from fedgrain.plugins import check_trust
from fedgrain.records.chain import RecordError
from fedgrain.sites.guard import DeclinedError, Guard, coarsened, limit_work
from fedgrain.sites.site import Site, open_site
from fedgrain.text import one_line

TRUST = "trust-code"  # of a site's settings: true to run code that an app's config names
_FILES = ("images", "knowledge", "net-weights")  # settings that name files a site reads when opened


class Answering:
    """Answers messages; the site of the last one stays open for the next."""

    def __init__(self) -> None:
        self.opening = False  # a site is being read; this is not interrupted
        self._opened: tuple[str, Site] | None = None
        self._guards: dict[str, Guard] = {}  # by the settings of the site

    def answer(
        self, request: Request, content: RecordDict, wanted: Callable[[], bool] = lambda: True
    ) -> RecordDict:
        """Check a message, answer it, and record both; what cannot be recorded is not sent.

        A site that took so long to open that the answer is not wanted any more stays open.
        """
        key = json.dumps(dict(request.node), sort_keys=True)
        guard = self._guards.setdefault(key, Guard.of(request.node))
        try:
            answer = self._allowed(guard, request, content, wanted)
            return guard.left(request, content, answer)
        except RecordError as error:
            print(f"fedgrain: error: {error}", file=sys.stderr)
            return declined("record", "the site's record cannot be continued")

    def _allowed(
        self, guard: Guard, request: Request, content: RecordDict, wanted: Callable[[], bool]
    ) -> RecordDict:
        """Answer what the policy allows; of a failure only the type is sent, the rest is logged."""
        began = time.perf_counter()
        try:
            policy = guard.came(request, content)
            limit_work(policy)
            with one_thread():
                site = self._site(request).under(policy.count_rounding, counts=policy.counts)
                if not wanted():
                    raise TooLateError("nobody waits for this answer any more")
                answer = handler_of(request.kind, content)(site)
            if not is_private(request.node, request.settings):  # the time tells how many images
                answer["time"] = MetricRecord({"seconds": time.perf_counter() - began})
            return coarsened(policy, answer)
        except RecordError:
            raise
        except DeclinedError as error:
            print(f"fedgrain: declined {request.kind}: {one_line(error)}", file=sys.stderr)
            return declined(error.rule, error.why)
        except Exception as error:
            traceback.print_exc()
            return failure(error, request.node, request.settings)

    def _site(self, request: Request) -> Site:
        """Return the site of a message; it is opened again if anything it was made from changed."""
        key = _made_from(request)
        if self._opened is None or self._opened[0] != key:
            self._opened = None  # its memory first
            self.opening = True
            try:
                self._opened = (key, opened(Path(request.package), request.node, request.settings))
            finally:
                self.opening = False
        return self._opened[1]


def handler_of(kind: str, content: RecordDict) -> Callable[[Site], RecordDict]:
    """Return what a site does with a message of this kind."""
    if kind == "query":
        return lambda site: site.counts().record()
    if kind == "train":
        return lambda site: site.train(content)
    return lambda site: site.evaluate(content)


def opened(package: Path, node: Mapping[str, Any], settings: Mapping[str, Any]) -> Site:
    """Open the site that its own settings and the app describe.

    Code that the app's config names is not run unless the site's own settings trust it.
    """
    app = App.read(package)
    try:
        check_trust(app.config.settings(), "the app", node.get(TRUST) is True, DeploymentError)
    except DeploymentError as error:
        raise DeclinedError(TRUST, str(error)) from None
    sites, rounding = site_names(str(settings["sites"])), int(settings["count-rounding"])
    return open_site(app, node, sites, rounding, Privacy.of(settings))


def _made_from(request: Request) -> str:
    """Return a digest of the app, all settings, and the size and time of the site's files."""
    found = hashlib.sha256(
        json.dumps([dict(request.node), dict(request.settings)], sort_keys=True).encode()
    )
    for name in ("config.toml", "taxonomy.json"):
        path = Path(request.package) / name
        found.update(path.read_bytes() if path.exists() else b"none")
    for name in _FILES:
        path = Path(str(request.node.get(name, "")))
        if name in request.node and path.is_file():
            about = path.stat()
            found.update(f"{name} {about.st_size} {about.st_mtime_ns}".encode())
    return found.hexdigest()
