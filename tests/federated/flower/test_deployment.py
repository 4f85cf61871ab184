"""A federation from nothing, by the commands `fedgrain flower init` wrote: TLS, keys, faults."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from PIL import Image

from fedgrain.federated.flower.certificates import write_key_pair
from flower_network import PYTHONPATH, Network, Started, free_port, nothing_left, wait_until

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
rounds = 30
patience = 30
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

    def __init__(self, folder: Path, fedgrain: Callable[..., Any]) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "tree.csv").write_text(TREE)
        (folder / "config.toml").write_text(CONFIG)
        self.deployment = folder / "federation"
        names = [word for site in SITES for word in ("--site", site)]
        done = fedgrain(
            "flower", "init", self.deployment, "--taxonomy", folder / "tree.csv",
            "--config", folder / "config.toml", "--port", self.port, "--keys",
            "--count-rounding", 10, *names,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.commands = (self.deployment / "COMMANDS.md").read_text()
        self.manifests = {site: write_site(folder / site, LABELS[site]) for site in SITES}
        for site in SITES:
            shutil.copy(self.deployment / "certificates" / "ca.crt", folder / site)
            shutil.copy(self.deployment / "keys" / site, folder / site)

    def network(self) -> Network:
        (link,) = typed(self.commands, "flower-superlink")
        home = self.deployment / "home"
        return Network(self.folder / "logs", home=home, link=link, port=self.port)

    def start_site(self, network: Network, site: str) -> Started:
        """Type the site's command; on one machine each needs a port of its own."""
        (command,) = [words for words in typed(self.commands, "flower-supernode") if site in words]
        path = str(self.manifests[site])
        command = [word.replace("/path/to/images.csv", path) for word in command]
        faults = str(self.folder / site)
        return network.start(
            site,
            [*command, "--port", str(free_port())],
            self.folder / site,
            FEDGRAIN_TEST_FAULTS=faults,
        )

    def registration(self, fedgrain: Callable[..., Any], key: str) -> dict[str, Any]:
        """Ask `fedgrain flower check` whether the server knows a key."""
        place = self.folder / "museum"
        done = fedgrain(
            "flower", "check", "--app", self.deployment / "app", "--site", "museum",
            "--images", self.manifests["museum"], "--server", f"127.0.0.1:{self.port}",
            "--certificate", place / "ca.crt", "--key", place / key, "--json",
            FLWR_HOME=str(self.deployment / "home"), PYTHONPATH=PYTHONPATH,
        )  # fmt: skip
        (found,) = [
            finding
            for finding in json.loads(done.stdout)["findings"]
            if finding["subject"] == "registration"
        ]
        assert done.returncode == (0 if found["good"] else 2)
        return dict(found)

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


def taking_part(line: dict[str, Any]) -> set[str]:
    return {client["client"] for client in line["clients"]}


def test_registered_sites_train_others_are_refused_and_faults_cost_one_update(
    tmp_path: Path, fedgrain: Callable[..., Any]
) -> None:
    federation = Federation(tmp_path, fedgrain)
    with federation.network() as network:
        for number, command in enumerate(typed(federation.commands, "flwr supernode register")):
            network.call(f"register-{number}", command)
        assert federation.registration(fedgrain, "museum") == {
            "subject": "registration", "good": True, "text": "the server knows this key",
        }  # fmt: skip
        (tmp_path / "herbarium" / "hang").touch()
        nodes = {site: federation.start_site(network, site) for site in SITES}

        write_key_pair(tmp_path / "stranger")
        (command,) = [w for w in typed(federation.commands, "flower-supernode") if "zoo" in w]
        strange = [str(tmp_path / "stranger") if word == "zoo" else word for word in command]
        port = ["--port", str(free_port())]
        refused = federation.registration(fedgrain, "../stranger")
        assert not refused["good"] and "supernode register" in refused["text"]
        stranger = network.start("stranger", [*strange, *port], tmp_path / "zoo")
        plain = network.start(
            "plain",
            ["flower-supernode", "--insecure", "--superlink", network.address,
             "--max-retries", "1", "--port", str(free_port())],
        )  # fmt: skip
        (command,) = typed(federation.commands, "flwr run")
        run = network.start("run", command)

        wait_until((tmp_path / "herbarium" / "hanging").exists, "herbarium trains")
        nodes["herbarium"].kill()
        (tmp_path / "herbarium" / "hang").unlink()
        wait_until(lambda: len(federation.lines()) == 1, "the first round ends")
        (tmp_path / "zoo" / "nan").touch()
        federation.bring_back(network, "herbarium")
        wait_until(lambda: "herbarium" in taking_part(federation.lines()[-1]), "it is back")
        log = run.text()

        assert "[code: 2004] Failed to activate SuperNode" in stranger.text()
        # the server takes nothing but TLS; the plain site tries a few times before it says so
        # (the connection is closed before or after its request has come: two words for the same)
        closed = re.compile("without sending a response|Connection reset by peer")
        wait_until(lambda: bool(closed.search(plain.text())), "a plain site is refused")
        assert not any("SuperNode ID" in refused.text() for refused in (stranger, plain))
        with pytest.raises((http.client.HTTPException, OSError)):
            connection = http.client.HTTPConnection("127.0.0.1", network.port, timeout=10)
            connection.request("GET", "/")
            connection.getresponse()
    nothing_left(f"FLWR_HOME={network.home}")

    first, *others = federation.lines()
    assert taking_part(first) == {"museum", "zoo"}
    assert [fault["client"] for fault in first["faults"]] == ["herbarium"]
    assert taking_part(others[-1]) == {"museum", "herbarium"}
    reason = "its update holds NaN or infinite numbers"
    assert {"client": "zoo", "fault": reason} in others[-1]["faults"]
    number = len(others)  # the last line may be younger than the log
    assert any(f"fedavg {n}: zoo is left out: {reason}" in log for n in range(2, number + 2))
    assert "museum is connected with 40 samples" in log  # 50 less the fifth that validates
    told = [line["samples"] for line in (*first["clients"], *others[-1]["clients"])]
    assert [count % 10 for count in told] == [0] * len(told)
    assert "patient" not in log  # no name of a file leaves a site
