"""Figures of a federation's run for Prometheus, read anew whenever they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.errors import DeploymentError
from fedgrain.membership.status import Status, read_status

if TYPE_CHECKING:
    from prometheus_client import Metric


class Figures:
    """What prometheus-client calls a collector."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def collect(self) -> Iterable[Metric]:
        """Read the files of the server and return the figures."""
        return figures(read_status(self.folder))


def figures(found: Status) -> Iterator[Metric]:
    """Return the figures of a status by name."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield _gauge("running", "1 while the run goes on", float(found.state == "running"))
    yield _gauge("finished", "1 when the run has ended", float(found.state == "finished"))
    if found.at_most_seconds_left is not None:
        yield _gauge("seconds_left", "at most, by the last rounds", found.at_most_seconds_left)
    for name, text, value in (
        ("messages", "exchanged with all sites", found.messages),
        ("traffic_bytes", "of arrays, both ways", found.bytes),
        ("updates_lost", "of all sites", found.faults),
    ):
        counter = CounterMetricFamily(f"fedgrain_{name}", text)
        counter.add_metric([], value)
        yield counter
    rounds = CounterMetricFamily("fedgrain_site_rounds", "with an update", labels=["site"])
    faults = CounterMetricFamily("fedgrain_site_faults", "updates lost", labels=["site"])
    silent = GaugeMetricFamily("fedgrain_site_silent_rounds", "since its last", labels=["site"])
    for site in found.sites:
        rounds.add_metric([site.name], site.rounds)
        faults.add_metric([site.name], site.faults)
        silent.add_metric([site.name], site.silent)
    yield from (rounds, faults, silent)


def _gauge(name: str, text: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"fedgrain_{name}", text, value=value)


@contextmanager
def serve(folder: Path, address: str, port: int) -> Iterator[int]:
    """Serve ``/metrics`` in the background; gives the port, a free one if 0 is asked for."""
    if find_spec("prometheus_client") is None:
        raise DeploymentError(
            "this needs prometheus-client; install it with: pip install 'fedgrain[prometheus]'"
        )
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    collector: Any = Figures(folder)
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
