"""Kill parts of a real federation at random moments; its model must be that of one process.

A SuperLink and three sites on loopback run ten rounds. At seeded random moments a site's worker,
its messenger, its SuperNode, the server's process, or a worker and the server at once are killed;
what is not replaced by itself is started again. With ``min_clients`` at all three sites, a round
that lost an update ends the run, and the next start repeats the round.

    python tests/attacks/network_kills.py [--kills 20] [--seed 1] [--rounds 10]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedgrain import Config, run
from fedgrain.deployment.app import App, write_app
from fedgrain.deployment.server_settings import Operation
from fedgrain.records.audit import read_audit
from flower_network import Network, Started, command_of, processes_with

SITES = ["museum", "zoo", "herbarium"]
PROGRAMS = {
    "worker": ["fedgrain.sites.worker"],
    "messenger": ["fedgrain.membership.messenger"],
    "SuperNode": ["fedgrain.membership.supernode"],
    "server": ["flwr-serverapp"],
    "worker and server": ["fedgrain.sites.worker", "flwr-serverapp"],
}
LIMIT = 3600.0  # seconds for everything


def kill(home: Path, program: str, moments: random.Random) -> bool:
    """Kill one process that runs a program; return whether there was one."""
    found = [p for p in processes_with(f"FLWR_HOME={home}") if program in command_of(p)]
    if not found:
        return False
    os.kill(moments.choice(sorted(found)), signal.SIGKILL)
    return True


class Attack:
    """A federation under attack."""

    def __init__(self, folder: Path, config: Config, seed: int) -> None:
        self.folder, self.moments = folder, random.Random(seed)
        self.result = folder / "run" / "result.json"
        write_app(folder / "app", App(config, None), Operation(SITES, folder / "run"))
        self.network = Network(folder / "network")
        self.nodes: dict[str, Started] = {}
        self.runs: list[Started] = []

    def keep_going(self) -> None:
        """Start again what has ended: sites, and the run."""
        for number, site in enumerate(SITES):
            node = self.nodes.get(site)
            if node is None or node.process.poll() is not None:
                if node is not None:
                    node.kill()  # the rest of its group
                record = self.folder / f"{site}.jsonl"
                self.nodes[site] = self.network.node(
                    site, f'partition-id={number} record="{record}"'
                )
        home = f"FLWR_HOME={self.network.home}"
        serving = any("flwr-serverapp" in command_of(p) for p in processes_with(home))
        waiting = self.runs and time.monotonic() - self.begun < 30
        if not serving and not waiting and not self.result.exists():
            if self.runs:
                self.runs[-1].kill()
            self.runs.append(self.network.run(self.folder / "app", f"run{len(self.runs)}"))
            self.begun = time.monotonic()

    def go(self, kills: int) -> list[str]:
        """Kill and start again until the run ends; return what was killed."""
        killed: list[str] = []
        end, after = time.monotonic() + LIMIT, time.monotonic() + self.moments.uniform(5, 60)
        while not self.result.exists() and time.monotonic() < end:
            self.keep_going()
            if len(killed) < kills and time.monotonic() > after:
                what = self.moments.choice(list(PROGRAMS))
                done = [kill(self.network.home, p, self.moments) for p in PROGRAMS[what]]
                if all(done):
                    killed.append(what)
                    print(f"{len(killed):3}  {what}", flush=True)
                after = time.monotonic() + self.moments.uniform(1, 40)
            time.sleep(0.5)
        return killed


def main() -> None:
    """Attack, and compare with one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    config = Config(
        dataset="own_parts:few_glyphs", net="own_parts:SmallNet", clients=3, min_clients=3,
        alpha=0.5, max_children=4, join_ratio=1.0, rounds=args.rounds, patience=args.rounds,
        client_time_limit=90.0,
    ).complete()  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.monotonic()
        attack = Attack(folder, config, args.seed)
        with attack.network:
            killed = attack.go(args.kills)
        run(config, folder / "here", workers=1)
        there, here = (
            folder / "run" / "best.safetensors",
            folder / "here" / "best.safetensors",
        )
        same = there.exists() and there.read_bytes() == here.read_bytes()
        records = [folder / "run" / "record.jsonl", *(folder / f"{s}.jsonl" for s in SITES)]
        entries = [read_audit(path).entries for path in records]
    kinds = ", ".join(f"{what} {killed.count(what)}" for what in PROGRAMS)
    print(f"{len(killed)} kills ({kinds}), {len(attack.runs)} starts of the run")
    print(f"the same model to the byte: {'yes' if same else 'NO'}")
    print(f"records that verify: {len(entries)} of 4, {sum(entries)} entries")
    print(f"seed {args.seed}, {time.monotonic() - began:.0f} seconds")
    if not same or len(killed) < args.kills:
        sys.exit(1)


if __name__ == "__main__":
    main()
