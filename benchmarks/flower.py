"""What a round costs across machines: seconds and bytes over 3 SuperNodes, and Flower's share.

A real SuperLink and three SuperNodes on loopback train the glyphs; the same run in one process goes
before and after. Flower's share is the time of the exchanges in which no site loads or trains:
messages, and the fresh process (with its import of torch) that every message starts.

    python benchmarks/flower.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fedgrain import Config, run
from fedgrain.deployment.app import App, write_app
from fedgrain.deployment.server_settings import Operation
from flower_network import Network, wait_until

SITES = ["museum", "zoo", "herbarium"]


def lines(path: Path) -> list[dict[str, Any]]:
    """Read one object a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def across(config: Config, folder: Path) -> list[dict[str, Any]]:
    """Run over the network; return a line per round."""
    write_app(folder / "app", App(config, None), Operation(SITES, folder / "run"))
    with Network(folder / "network") as network:
        for number, site in enumerate(SITES):
            network.node(site, f"partition-id={number}")
        network.run(folder / "app", "run")
        wait_until((folder / "run" / "result.json").exists, "the run ends", 900)
    return lines(folder / "run" / "traffic.jsonl")


def in_process(config: Config, folder: Path) -> list[dict[str, Any]]:
    """Run in one process; return a line per round."""
    run(config, folder, workers=1)
    return lines(folder / "metrics.jsonl")


def tell(stage: str, flower: list[dict[str, Any]], plain: list[dict[str, Any]]) -> None:
    """Print the mean over the rounds of a stage."""
    rounds = [line for line in flower if line["stage"] == stage]
    here = [line["seconds"] for line in plain if line["stage"] == stage]
    seconds, sent = (sum(r[name] for r in rounds) / len(rounds) for name in ("seconds", "bytes"))
    exchange = sum(r["exchange_seconds"] for r in rounds) / len(rounds)
    site = sum(r["site_seconds"] for r in rounds) / len(rounds)
    alone = sum(here) / len(here)
    name = "FedAvg round " if stage == "fedavg" else "FedBDFT cycle"
    print(
        f"{name}  {seconds:6.2f} s  {sent / 1e6:6.2f} MB  "
        f"{sum(r['messages'] for r in rounds) / len(rounds):.0f} messages  "
        f"Flower's share {(exchange - site) / seconds:4.0%}  "
        f"in one process {alone:.2f} s ({seconds / alone:.1f} times faster)"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer images and rounds")
    quick = parser.parse_args().quick
    config = Config(
        dataset="own_parts:few_glyphs" if quick else "glyphs",
        algorithm="fedbdft",
        clients=3,
        alpha=0.6,
        join_ratio=1.0,
        rounds=1 if quick else 3,
        cycles=1 if quick else 2,
        client_time_limit=600.0,
    ).complete()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = in_process(config, folder / "before")
        flower = across(config, folder / "across")
        after = in_process(config, folder / "after")
        same = (folder / "across" / "run" / "best.safetensors").read_bytes() == (
            folder / "after" / "best.safetensors"
        ).read_bytes()
    for stage in ("fedavg", "fedbdft"):
        tell(stage, flower, before + after)
    print(f"the same weights to the byte: {'yes' if same else 'NO'}")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
