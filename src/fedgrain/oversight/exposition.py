"""Figures for Prometheus, of a federation's run or of a site; read anew whenever asked for."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.errors import DeploymentError
from fedgrain.records.audit import Audit, Sum, read_audit
from fedgrain.records.chain import RecordError

if TYPE_CHECKING:  # the status loads torch, which a site's figures do without
    from prometheus_client import Metric

    from fedgrain.oversight.status import Status


class Figures:
    """What prometheus-client calls a collector."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self.collect = read


def figures(found: Status) -> Iterator[Metric]:
    """Return the figures of a status by name."""
    from prometheus_client.core import GaugeMetricFamily

    yield _gauge("running", "1 while the run goes on", float(found.state == "running"))
    yield _gauge("finished", "1 when the run has ended", float(found.state == "finished"))
    if found.at_most_seconds_left is not None:
        yield _gauge("seconds_left", "at most, by the last rounds", found.at_most_seconds_left)
    for name, text, value in (
        ("messages", "exchanged with all sites", found.messages),
        ("traffic_bytes", "of arrays, both ways", found.bytes),
        ("updates_lost", "of all sites", found.faults),
    ):
        yield _counter(name, text, {(): value})
    rounds = {(site.name,): site.rounds for site in found.sites}
    yield _counter("site_rounds", "with an update", rounds, "site")
    lost = {(site.name,): site.faults for site in found.sites}
    yield _counter("site_faults", "updates lost", lost, "site")
    silent = GaugeMetricFamily("fedgrain_site_silent_rounds", "since its last", labels=["site"])
    for site in found.sites:
        silent.add_metric([site.name], site.silent)
    yield silent


def site_figures(record: Path) -> Iterator[Metric]:
    """Return the figures of a site, from its record of all that came and left."""
    found, sound = _audited(record)
    yield _gauge("record_verifies", "0 if the record was altered or cut", float(sound))
    if found is None:
        return
    yield _gauge("record_entries", "of the record", found.entries)
    last = datetime.fromisoformat(found.until).timestamp()
    yield _gauge("last_entry_timestamp_seconds", "when something last came or left", last)
    if found.epsilon is not None:
        yield _gauge("epsilon", "privacy spent, over all runs", found.epsilon)
    norms = [one.largest_norm for one in found.left if one.largest_norm is not None]
    if norms:
        yield _gauge("largest_update_norm", "of all updates that left", max(norms))
    yield from _ways({"came": found.came, "left": found.left})
    yield _counter(
        "declined", "by the policy", {(r,): n for r, n in found.declined.items()}, "rule"
    )
    yield _counter("failed", "messages that the site could not answer", {(): found.failed})
    yield _counter("repaired", "torn last lines of the record", {(): found.repaired})


def _audited(record: Path) -> tuple[Audit | None, bool]:
    """Return what a record says, and whether it verifies; it begins with the first message."""
    if not record.exists():
        return None, True
    try:
        with record.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # not in the middle of an entry
            return read_audit(record), True
    except RecordError:
        return None, record.stat().st_size == 0


def _ways(ways: dict[str, list[Sum]]) -> Iterator[Metric]:
    """Return the messages and bytes that came and left, by kind."""
    rows = {(way, one.kind): one for way, found in ways.items() for one in found}
    for name, text in (("messages", "between site and server"), ("bytes", "of their content")):
        values = {labels: getattr(one, name) for labels, one in rows.items()}
        yield _counter(f"site_{name}", text, values, "way", "kind")


def _counter(name: str, text: str, values: Mapping[Any, float], *labels: str) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    found = CounterMetricFamily(f"fedgrain_{name}", text, labels=labels)
    for key, value in values.items():
        found.add_metric(list(key), value)
    return found


def _gauge(name: str, text: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"fedgrain_{name}", text, value=value)


@contextmanager
def serve(read: Callable[[], Iterable[Metric]], address: str, port: int) -> Iterator[int]:
    """Serve ``/metrics`` in the background; gives the port, a free one if 0 is asked for."""
    if find_spec("prometheus_client") is None:
        raise DeploymentError(
            "this needs prometheus-client; install it with: pip install 'fedgrain[prometheus]'"
        )
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    collector: Any = Figures(read)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        raise DeploymentError(
            f"{address}:{port} cannot be opened ({error.strerror}); choose another --port"
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
