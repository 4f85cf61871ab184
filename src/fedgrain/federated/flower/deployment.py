"""``fedgrain flower init``: the folder from which a federation is started.

``app`` is what Flower packs and sends to everyone, so secrets lie beside it, not in it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgrain.errors import DeploymentError
from fedgrain.experiment.config import Config
from fedgrain.federated.flower.app_folder import IMAGE_SIZE, App, write_app
from fedgrain.federated.flower.certificates import write_certificates, write_key_pair
from fedgrain.federated.flower.operation import Operation
from fedgrain.federated.flower.privacy import Privacy, need_accounting
from fedgrain.federated.flower.strategies import OURS, average_by
from fedgrain.federated.flower.wire import MOST_SAMPLES
from fedgrain.files import write_text
from fedgrain.taxonomy import read_csv

TIME_LIMIT = 600.0  # seconds a site has for an answer, where the config sets none
SUPERLINK = "fedgrain"  # the name under which Flower's commands know our server


@dataclass(frozen=True)
class Deployment:
    """What ``init`` is asked for."""

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

    def __post_init__(self) -> None:
        for name in self.sites:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
                raise DeploymentError(
                    f"site {name!r}: write a name of letters, digits, dots, dashes and underscores"
                )
        if not self.sites or len(set(self.sites)) < len(self.sites):
            raise DeploymentError("give every site once: --site NAME --site OTHER ...")
        if self.count_rounding < 1:
            raise DeploymentError(
                f"count rounding is {self.count_rounding}, but must be at least 1"
            )
        if self.most_samples is not None and not 1 <= self.most_samples <= MOST_SAMPLES:
            raise DeploymentError(
                f"most samples is {self.most_samples}, but must lie between 1 and {MOST_SAMPLES}"
            )
        if not 1 <= self.port <= 65535:
            raise DeploymentError(f"port {self.port} must lie between 1 and 65535")
        if self.wait_seconds < 0:
            raise DeploymentError(f"wait seconds is {self.wait_seconds}, but must be at least 0")
        if not re.fullmatch(r"[A-Za-z0-9.:-]+", self.host):
            raise DeploymentError(f"host {self.host!r} is neither a name nor an address")


def deployed_config(config: Config, sites: int) -> Config:
    """Return the config of a deployment: complete, and for real sites with their own images.

    A server without images leaves validation to the sites; knowledge is the sites' own matter. A
    site that hangs must not hold up the others for ever.
    """
    limit = config.client_time_limit or TIME_LIMIT
    changes: dict[str, object] = {"clients": sites, "client_time_limit": limit}
    if config.dataset == "folder":
        size = config.image_size or IMAGE_SIZE
        changes |= {"partition": "manifest", "knowledge": "inferred", "validation": "clients"}
        changes |= {"image_size": size, "data_root": None, "manifest": None, "taxonomy": None}
    return replace(config, **changes).complete()  # type: ignore[arg-type]


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
    app = App(deployed_config(config, len(wanted.sites)), tree)
    aside = wanted.folder.with_name(f".{wanted.folder.name}.{os.getpid()}.part")
    average_by(wanted.strategy, app.config, frozenset())  # refused before anything is written
    operation = Operation(
        wanted.sites,
        wanted.folder / "run",
        wanted.wait_seconds,
        wanted.count_rounding,
        wanted.strategy,
        wanted.privacy,
        wanted.most_samples,
    )
    try:
        write_app(aside / "app", app, operation)
        hosts = dict.fromkeys([wanted.host, "127.0.0.1", "localhost"])
        write_certificates(aside / "certificates", list(hosts))
        for site in wanted.sites if wanted.keys else ():
            write_key_pair(aside / "keys" / site)
        write_text(aside / "home" / "config.toml", _flower_config(wanted))
        write_text(aside / "COMMANDS.md", commands(wanted, real=tree is not None))
        aside.rename(wanted.folder)
        return app.config
    except OSError as error:
        if str(error.filename).startswith(str(aside)):  # a name nobody has given
            error.filename = str(wanted.folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _flower_config(wanted: Deployment) -> str:
    """Return how ``flwr`` on the server's machine reaches the server."""
    certificate = json.dumps(str(wanted.folder.absolute() / "certificates" / "ca.crt"))
    return (
        f'[superlink]\ndefault = "{SUPERLINK}"\n\n[superlink.{SUPERLINK}]\n'
        f'address = "{_address(wanted)}"\nroot-certificates = {certificate}\n'
    )


def server_command(wanted: Deployment) -> list[str]:
    """Return the command that starts the server."""
    folder = wanted.folder.absolute()
    certificates = folder / "certificates"
    return [
        "flower-superlink",
        "--ssl-ca-certfile", str(certificates / "ca.crt"),
        "--ssl-certfile", str(certificates / "server.crt"),
        "--ssl-keyfile", str(certificates / "server.key"),
        "--enable-supernode-auth",
        "--database", str(folder / "home" / "superlink.db"),
        "--host", _bound(wanted.host),
        "--port", str(wanted.port),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip


def register_command(wanted: Deployment, site: str) -> list[str]:
    """Return the command that lets a site in."""
    key = wanted.folder.absolute() / "keys" / f"{site}.pub"
    return ["flwr", "supernode", "register", str(key), SUPERLINK, "--name", site]


def run_command(wanted: Deployment) -> list[str]:
    """Return the command that starts the rounds, or goes on with them."""
    return ["flwr", "run", str(wanted.folder.absolute() / "app"), SUPERLINK, "--stream"]


def site_command(
    wanted: Deployment, settings: str, key: str, certificate: str = "ca.crt"
) -> list[str]:
    """Return the command that starts a site."""
    return [
        "flower-supernode",
        "--root-certificates", certificate,
        "--auth-supernode-private-key", key,
        "--superlink", _address(wanted),
        "--node-config", settings,
    ]  # fmt: skip


def commands(wanted: Deployment, *, real: bool) -> str:
    """Return every command to type, for the server and for each site."""
    folder = wanted.folder.absolute()
    quiet = "export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1"
    registers = "\n".join(shlex.join(register_command(wanted, site)) for site in wanted.sites)
    keys = (
        "The key pairs are in `keys`: give each site its private key over a safe way, then delete "
        "it here."
        if wanted.keys
        else "Each site makes its own key pair with `ssh-keygen -t ecdsa -b 384 -f NAME -N ''` and "
        "sends you NAME.pub, which you put into `keys`."
    )
    package = "fedgrain[dp,flower]" if wanted.privacy else "fedgrain[flower]"
    parts = [
        "# Start this federation",
        f"On every machine: `pip install '{package}'`. Flower reports usage and asks for "
        "updates unless the first line of each block below is typed.",
        "## The server",
        _block(quiet, f"export FLWR_HOME={shlex.quote(str(folder / 'home'))}",
               shlex.join(server_command(wanted))),
        f"{keys} In another terminal, with the same two exports, let the sites in:",
        _block(registers),
        "When the sites below are started, begin the rounds. The same command goes on after an "
        "interruption, from the last whole round:",
        _block(shlex.join(run_command(wanted))),
    ]  # fmt: skip
    for number, site in enumerate(wanted.sites):
        settings = f'site="{site}" images="/path/to/images.csv"' if real else (
            f"partition-id={number}"
        )  # fmt: skip
        if wanted.privacy:
            settings += f' ledger="/path/to/{site}-releases.jsonl"'
        parts += [
            f"## Site {site}",
            f"It needs `certificates/ca.crt` and its private key `{site}`.",
            _block(quiet, shlex.join(site_command(wanted, settings, site))),
        ]
    return "\n\n".join(parts) + "\n"


def _block(*lines: str) -> str:
    return "\n".join(["```sh", *lines, "```"])


def _address(wanted: Deployment) -> str:
    host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    return f"{host}:{wanted.port}"


def _bound(host: str) -> str:
    """Return where the server listens: on this machine alone if sites reach it there."""
    try:
        return host if ipaddress.ip_address(host).is_loopback else "0.0.0.0"
    except ValueError:
        return "127.0.0.1" if host == "localhost" else "0.0.0.0"
