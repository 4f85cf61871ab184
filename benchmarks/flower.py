"""What a round costs across machines: seconds and bytes over 3 SuperNodes, and Flower's share.

A real SuperLink and three SuperNodes on loopback, started as ``fedgrain flower join`` starts them,
train the glyphs; the same run in one process goes before and after. Flower's share is the time of
the exchanges in which no site loads or trains: messages, and waiting for them. ``--plain`` starts
Flower's own SuperNodes, which look for a message every 3 seconds and start a program for each.
``--memory N`` runs N rounds of a small net, prints the memory of every kind of process after the
first tenth and at the end, and whether it is flat.

    python benchmarks/flower.py [--quick] [--plain] [--memory N]
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
from flower_network import Network, command_of, free_port, processes_with, wait_until

SITES = ["museum", "zoo", "herbarium"]
GROWTH_MB, GROWTH = 20, 0.1  # that memory may grow between a tenth of the rounds and the end


def lines(path: Path) -> list[dict[str, Any]]:
    """Read one object a line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


PROGRAMS = {
    "worker": "fedgrain.sites.worker",
    "messenger": "fedgrain.membership.messenger",
    "SuperNode": "fedgrain.membership.supernode",
    "SuperLink": "flower-superlink",
    "server": "flwr-serverapp",
}


def start(network: Network, site: str, number: int, plain: bool) -> None:
    """Start a SuperNode as join does, or as Flower does."""
    settings = f'partition-id={number} record="{network.folder / site}.jsonl"'
    if not plain:
        network.node(site, settings)
        return
    options = ["--superlink", network.address, "--port", str(free_port())]
    options += ["--node-config", f"{settings} trust-code=true"]
    network.start(site, ["flower-supernode", "--insecure", *options])


def across(config: Config, folder: Path, plain: bool = False) -> list[dict[str, Any]]:
    """Run over the network; return a line per round."""
    write_app(folder / "app", App(config, None), Operation(SITES, folder / "run"))
    with Network(folder / "network") as network:
        for number, site in enumerate(SITES):
            start(network, site, number, plain)
        network.run(folder / "app", "run")
        wait_until((folder / "run" / "result.json").exists, "the run ends", 1800)
    return lines(folder / "run" / "traffic.jsonl")


def memory(home: Path) -> dict[str, float]:
    """Return the memory of the largest process of each kind, in MB."""
    found: dict[str, float] = {}
    for process in processes_with(f"FLWR_HOME={home}"):
        command = command_of(process)
        for name, program in PROGRAMS.items():
            status = Path(f"/proc/{process}/status")
            if program in command and status.exists():
                rows = dict(row.split(":", 1) for row in status.read_text().splitlines())
                resident = int(rows.get("VmRSS", "0 kB").split()[0]) / 1000
                found[name] = max(found.get(name, 0.0), resident)
    return found


def tell_memory(rounds: int, folder: Path) -> None:
    """Run rounds of a small net; print the memory after a tenth of them, and at the end."""
    config = Config(
        dataset="own_parts:few_glyphs", net="own_parts:SmallNet", clients=3, alpha=0.6,
        max_children=4, join_ratio=1.0, rounds=rounds, patience=rounds, client_time_limit=600.0,
    ).complete()  # fmt: skip
    write_app(folder / "app", App(config, None), Operation(SITES, folder / "run"))
    traffic = folder / "run" / "traffic.jsonl"

    def done(number: int) -> bool:
        return traffic.exists() and len(lines(traffic)) >= number

    with Network(folder / "network") as network:
        for number, site in enumerate(SITES):
            start(network, site, number, False)
        network.run(folder / "app", "run")
        wait_until(lambda: done(max(1, rounds // 10)), "a tenth of the rounds", 3600)
        early = memory(network.home)
        wait_until(lambda: done(rounds - 1), "the rounds", 7200)
        late = memory(network.home)
        wait_until((folder / "run" / "result.json").exists, "the run ends", 600)
    seconds = [line["seconds"] for line in lines(traffic)]
    print(f"{rounds} rounds, {sum(seconds) / len(seconds):.2f} s each (largest of each kind, MB)")
    growing = []
    for name, size in early.items():
        print(f"  {name:10} {size:6.0f} after a tenth, {late.get(name, 0):6.0f} at the end")
        if late.get(name, 0) > size + max(GROWTH_MB, GROWTH * size):
            growing.append(name)
    told = f"NO: {', '.join(growing)}" if growing else "yes"
    print(f"flat (at most {GROWTH_MB} MB or {GROWTH:.0%} more, whichever is larger): {told}")
    if growing:
        sys.exit(1)


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
        f"in one process {alone:.2f} s ({seconds / alone:.1f} times faster)  "
        f"aim {max(3.0, 1.5 * alone):.2f} s"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer images and rounds")
    parser.add_argument("--plain", action="store_true", help="Flower's own SuperNodes")
    parser.add_argument("--memory", type=int, metavar="N", help="memory over N rounds instead")
    args = parser.parse_args()
    quick = args.quick
    if args.memory:
        with tempfile.TemporaryDirectory() as name:
            tell_memory(args.memory, Path(name))
        return
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
        flower = across(config, folder / "across", args.plain)
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
