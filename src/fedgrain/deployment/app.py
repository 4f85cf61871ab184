"""The Flower app: what ``flwr run`` packs and sends to the server's process and to every site."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedgrain.config.config import Config
from fedgrain.config.config_texts import read_config
from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server_settings import Operation
from fedgrain.errors import DeploymentError, FedgrainError
from fedgrain.files import read_text, write_text
from fedgrain.handover.passing import PACKAGE
from fedgrain.parsing import parse_toml
from fedgrain.policy.site_policy import DELTA
from fedgrain.preparation.trunk import decoding_options, trunk_of
from fedgrain.taxonomy import Taxonomy, read_json, write_json
from fedgrain.trunks import TrunkSpec

AGAIN = "make the app again with fedgrain flower init"
IMAGE_SIZE = 64  # of users' folders, unless the config sets it

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "fedgrain-app"
version = "1.0.0"
description = "A federation of fedgrain; install fedgrain itself on every machine"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["{package}"]

[tool.flwr.app]
publisher = "fedgrain"

[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"

# only these settings can be changed with: flwr run APP NAME -c 'KEY=VALUE'
[tool.flwr.app.config]
sites = {sites}
run-folder = {run_folder}
# on the server: which key belongs to which site; empty lets every node in
record = {record}
wait-seconds = {wait_seconds}
count-rounding = {count_rounding}
strategy = "{strategy}"
# the most samples a site may claim; 0: a hundred times the median of the others
most-samples = {most_samples}
# noise that sites add to their updates, in multiples of the clipping norm; 0: no noise
dp-noise-multiplier = {noise}
dp-clip = {clip}
dp-delta = {delta}
"""

MODULE = '''\
"""Made by ``fedgrain flower init``."""

from pathlib import Path

from fedgrain.deployment.entry_points import {side}_app

app = {side}_app(Path(__file__).parent)
'''


@dataclass(frozen=True, eq=False)
class App:
    """The content of the app: the complete config, and the taxonomy of the sites' own images."""

    config: Config
    taxonomy: Taxonomy | None  # None for a benchmark, which brings its own

    @property
    def image_size(self) -> int:
        """Side of the sites' decoded images in pixels."""
        return int(self.decoding["size"])

    @property
    def decoding(self) -> dict[str, Any]:
        """How the sites decode their images: options of the loader."""
        return {"size": IMAGE_SIZE, **decoding_options(self.config, self.trunk)}

    @cached_property
    def trunk(self) -> TrunkSpec | None:
        """The pretrained trunk; weights with another SHA-256 than the app's are refused."""
        return trunk_of(self.config)

    @property
    def tree(self) -> Taxonomy:
        """The taxonomy of the sites' own images; an app without one is an error."""
        if self.taxonomy is None:
            raise DeploymentError(
                "the app has no taxonomy.json; make it again with: fedgrain flower init"
            )
        return self.taxonomy

    @classmethod
    def read(cls, package: Path) -> App:
        """Read what :func:`write_app` wrote."""
        config, tree = read_config(package / "config.toml").complete(), package / "taxonomy.json"
        return cls(config, read_json(tree) if tree.exists() else None)


def app_settings(folder: Path) -> dict[str, Any]:
    """Read an app's own settings."""
    path = folder / "pyproject.toml"
    found: Any = parse_toml(read_text(path), path, DeploymentError, AGAIN)
    for part in ("tool", "flwr", "app", "config"):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("sites"), str):
        raise DeploymentError(f"{path}: not the settings of an app; {AGAIN}")
    return found


def app_privacy(folder: Path) -> Privacy | None:
    """Read the privacy settings of an app; None if its sites add no noise."""
    try:
        return Privacy.of(app_settings(folder))
    except FedgrainError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        path = folder / "pyproject.toml"
        raise DeploymentError(f"{path}: damaged ({error}); {AGAIN}") from None


def write_app(folder: Path, app: App, operation: Operation) -> None:
    """Write the app; everything in the folder may be sent to every site."""
    package = folder / PACKAGE
    write_text(package / "__init__.py", '"""Made by ``fedgrain flower init``."""\n')
    for side in ("server", "client"):
        write_text(package / f"{side}_app.py", MODULE.format(side=side))
    write_text(package / "config.toml", app.config.toml())
    if app.taxonomy is not None:
        write_json(app.taxonomy, package / "taxonomy.json")
    private = operation.privacy
    text = _PYPROJECT.format(
        package=PACKAGE,
        sites=json.dumps(json.dumps(list(operation.sites), ensure_ascii=False)),
        run_folder=json.dumps(str(operation.run_folder.absolute()), ensure_ascii=False),
        record=json.dumps(str(operation.record.absolute()) if operation.record else ""),
        wait_seconds=operation.wait_seconds,
        count_rounding=operation.count_rounding,
        strategy=operation.strategy,
        most_samples=operation.most_samples or 0,
        noise=float(private.noise_multiplier if private else 0),
        clip=float(private.clip if private else 0),
        delta=float(private.delta if private else DELTA),
    )
    write_text(folder / "pyproject.toml", text)
