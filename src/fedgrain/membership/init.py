"""``fedgrain flower init``: write the folder from which a federation is started.

Flower packs ``app`` and sends it to everyone, so secrets are kept outside it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrain.config import defaults
from fedgrain.config.config import Config
from fedgrain.deployment.app import IMAGE_SIZE, App, write_app
from fedgrain.deployment.key_record import FILE, Member, Record
from fedgrain.deployment.privacy import Privacy, need_accounting
from fedgrain.deployment.server_settings import Operation
from fedgrain.deployment.strategies import OURS, average_by
from fedgrain.errors import DeploymentError
from fedgrain.files import write_text
from fedgrain.membership.commands import SUPERLINK
from fedgrain.membership.members import found, publish, signing_key
from fedgrain.membership.signing import sign_app
from fedgrain.messages.wire import MOST_SAMPLES
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.taxonomy import read_csv

_TIME_LIMIT = 600.0  # seconds a site has to answer, unless the config sets it


@dataclass(frozen=True)
class Deployment:
    """The arguments of ``init``."""

    folder: Path
    sites: Sequence[str]
    host: str = "127.0.0.1"
    port: int = 8000
    keys: bool = False
    count_rounding: int = 1
    wait_seconds: int = 600
    strategy: str = OURS
    privacy: Privacy | None = None
    most_samples: int | None = None
    link_port: int | None = None
    hub_port: int | None = None

    def __post_init__(self) -> None:
        if not self.sites or len(set(self.sites)) < len(self.sites):
            raise DeploymentError("give every site once: --site NAME --site OTHER ...")
        _ = self.record  # checks names, ports and host
        if self.count_rounding < 1:
            raise DeploymentError(
                f"count rounding is {self.count_rounding}, but must be at least 1"
            )
        if self.most_samples is not None and not 1 <= self.most_samples <= MOST_SAMPLES:
            raise DeploymentError(
                f"most samples is {self.most_samples}, but must lie between 1 and {MOST_SAMPLES}"
            )
        if self.wait_seconds < 0:
            raise DeploymentError(f"wait seconds is {self.wait_seconds}, but must be at least 0")

    @property
    def record(self) -> Record:
        """The record of the new federation; no site has a key yet."""
        link, hub = self.link_port or self.port + 1, self.hub_port or self.port + 2
        return Record(self.host, self.port, link, hub, dict.fromkeys(self.sites, Member()))


def _deployed_config(config: Config, sites: int) -> Config:
    """Return the complete config of a deployment, adapted to sites with their own images.

    A server without images leaves validation to the sites, and the sites decide what they know. A
    site that hangs must not block the others forever. Of a pretrained trunk the config holds the
    SHA-256 of its weights, which every site checks.
    """
    limit = config.client_time_limit or _TIME_LIMIT
    changes: dict[str, object] = {"clients": sites, "client_time_limit": limit}
    if config.dataset == "folder":
        size = config.image_size if config.has_trunk else config.image_size or IMAGE_SIZE
        changes |= {"partition": "manifest", "knowledge": "inferred", "validation": "clients"}
        changes |= {"image_size": size, "data_root": None, "manifest": None, "taxonomy": None}
        changes |= {"join_ratio": config.join_ratio or defaults.join_ratio(config, sites)}
    deployed = replace(config, **changes).complete()  # type: ignore[arg-type]
    return with_weights_hash(deployed)


def write_deployment(wanted: Deployment, config: Config, taxonomy: Path | None) -> Config:
    """Write the whole folder or nothing; return the config it was written with."""
    if wanted.folder.exists():
        raise DeploymentError(f"{wanted.folder}: exists already; choose a new folder")
    if (config.dataset == "folder") != (taxonomy is not None):
        raise DeploymentError(
            "sites with their own images need a tree: give --taxonomy TREE.csv"
            if taxonomy is None
            else f"--taxonomy is for sites' own images, but the data set is {config.dataset}"
        )
    if wanted.privacy:
        need_accounting()
    tree = read_csv(taxonomy) if taxonomy is not None else None
    app = App(_deployed_config(config, len(wanted.sites)), tree)
    aside = wanted.folder.with_name(f".{wanted.folder.name}.{os.getpid()}.part")
    average_by(wanted.strategy, app.config, frozenset())  # refuse it before anything is written
    operation = Operation(
        wanted.sites,
        wanted.folder / "run",
        wanted.wait_seconds,
        wanted.count_rounding,
        wanted.strategy,
        wanted.privacy,
        wanted.most_samples,
        wanted.folder / FILE,
    )
    try:
        write_app(aside / "app", app, operation)
        record = found(aside, wanted.record, keys=wanted.keys)
        sign_app(aside, signing_key(aside))
        write_text(aside / "home" / "config.toml", _flower_config(wanted.folder, record))
        publish(aside, record, wanted.folder)
        aside.rename(wanted.folder)
        return app.config
    except OSError as error:
        if str(error.filename).startswith(str(aside)):  # a name nobody has given
            error.filename = str(wanted.folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _flower_config(folder: Path, record: Record) -> str:
    """Return how ``flwr`` on the server's machine reaches the server."""
    certificate = json.dumps(str(folder.absolute() / "certificates" / "ca.crt"))
    return (
        f'[superlink]\ndefault = "{SUPERLINK}"\n\n[superlink.{SUPERLINK}]\n'
        f'address = "127.0.0.1:{record.link_port}"\nroot-certificates = {certificate}\n'
    )
