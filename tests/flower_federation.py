"""A federation as `fedgrain flower init` writes it: what its founder and its sites have."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from flower_network import PYTHONPATH, Network, Started, free_port, wait_until

needs_nginx = pytest.mark.skipif(
    shutil.which("nginx") is None, reason="nginx is not installed: apt install nginx-light"
)

SITES = ("museum", "zoo", "herbarium")
TREE = "parent,child\nr,a\nr,b\nr,c\na,a1\na,a2\na,a3\nb,b1\nb,b2\n"
LABELS = {
    "museum": ["a1", "a2", "a3", "b", "c"] * 10,
    "zoo": ["a", "b1", "b2", "c"] * 12,
    "herbarium": ["a1", "b", "c", "r"] * 11,
}
CONFIG = """\
net = "flower_parts:Net"
image_size = 32
rounds = 1000
patience = 1000
join_ratio = 1.0
lr = 0.05
batch = 16
client_time_limit = 45.0
"""


def write_site(folder: Path, labels: list[str]) -> Path:
    """Write images whose brightness follows the label, and their manifest."""
    (folder / "pictures").mkdir(parents=True)
    rng, rows = np.random.default_rng(len(labels)), ["path,label"]
    for number, label in enumerate(labels):
        pixels = rng.integers(0, 60, (32, 32, 3)) + 20 * sum(map(ord, label)) % 180
        name = f"pictures/patient-{number}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
        rows.append(f"{name},{label}")
    manifest = folder / "images.csv"
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


def typed(commands: str, start: str) -> list[list[str]]:
    """Return the commands of COMMANDS.md that begin so, as a shell reads them."""
    return [shlex.split(line) for line in commands.splitlines() if line.startswith(start)]


class Federation:
    """What the founder of a federation and its three sites have on their disks."""

    def __init__(
        self,
        folder: Path,
        fedgrain: Callable[..., Any],
        sites: Sequence[str] = SITES,
        config: str = CONFIG,
    ) -> None:
        self.folder, self.fedgrain = folder, fedgrain
        self.port, self.link_port, hub_port = free_port(), free_port(), free_port()
        (folder / "tree.csv").write_text(TREE)
        (folder / "config.toml").write_text(config)
        self.deployment = folder / "federation"
        names = [word for site in sites for word in ("--site", site)]
        done = fedgrain(
            "flower", "init", self.deployment, "--taxonomy", folder / "tree.csv",
            "--config", folder / "config.toml", "--keys", "--count-rounding", 10, *names,
            "--trust-code",
            "--port", self.port, "--link-port", self.link_port, "--hub-port", hub_port,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.commands = (self.deployment / "COMMANDS.md").read_text()
        self.manifests = {site: write_site(folder / site, LABELS[site]) for site in sites}
        for site in sites:
            self.hand_out(site)

    def hand_out(self, site: str) -> None:
        """Give a site its folder, and the app to look at."""
        shutil.copytree(self.deployment / "sites" / site, self.folder / site, dirs_exist_ok=True)
        shutil.copytree(self.deployment / "app", self.folder / site / "app", dirs_exist_ok=True)

    def network(self) -> Network:
        (link,), (gate,) = (typed(self.commands, word) for word in ("env ", "nginx "))
        home = self.deployment / "home"
        return Network(self.folder / "logs", home, link, self.link_port, gate, self.port)

    def operate(self, *command: object) -> dict[str, Any]:
        """Type a command of the operator's; return what it says."""
        done = self.fedgrain("flower", *command, "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def start_site(self, network: Network, site: str, **environment: str) -> Started:
        """Type the site's command; on one machine each needs a port of its own."""
        (command,) = [w for w in typed(self.commands, "fedgrain flower join") if site in w]
        path = str(self.manifests[site])
        command = [word.replace("/path/to/images.csv", path) for word in command]
        command[command.index("--port") + 1] = str(free_port())
        place = self.folder / site
        environment["FEDGRAIN_TEST_FAULTS"] = str(place)
        return network.start(site, [*command, "--trust-code"], place, **environment)

    def findings(
        self, site: str, *options: object, **environment: str
    ) -> dict[str, dict[str, Any]]:
        """Type the site's `fedgrain flower check`; return what it finds, by subject."""
        (command,) = [w for w in typed(self.commands, "fedgrain flower check") if site in w]
        path, place = str(self.manifests[site]), self.folder / site
        command = [word.replace("/path/to/images.csv", path) for word in command[1:]]
        command = [str(place / word) if word in ("app", site) else word for word in command]
        command[command.index("--site") + 1] = site
        options = (*options, "--trust-code", "--json")
        done = self.fedgrain(*command, *options, PYTHONPATH=PYTHONPATH, **environment)
        found = {one["subject"]: one for one in json.loads(done.stdout)["findings"]}
        assert done.returncode == (0 if all(one["good"] for one in found.values()) else 2)
        return found

    def bring_back(self, network: Network, site: str) -> None:
        """Start a killed site again and again: Flower refuses a key that still seems online."""
        end = time.monotonic() + 150
        while time.monotonic() < end:
            node = self.start_site(network, site)
            before = node.text().count("SuperNode ID")
            refused = node.text().count("Exit Code")
            wait_until(
                lambda: (
                    node.text().count("SuperNode ID") > before  # noqa: B023
                    or node.text().count("Exit Code") > refused  # noqa: B023
                ),
                "an answer",
            )
            if node.text().count("SuperNode ID") > before:
                return
            node.kill()
            time.sleep(5)
        raise AssertionError(f"{site} could not come back")

    def lines(self) -> list[dict[str, Any]]:
        metrics = self.deployment / "run" / "metrics.jsonl"
        return [json.loads(line) for line in metrics.read_text().splitlines()] if (
            metrics.exists()
        ) else []  # fmt: skip
