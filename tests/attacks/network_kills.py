"""Kill parts of a real federation at random moments; its model must be that of one process.

A SuperLink and three sites on loopback run ten rounds. At moments that the seed decides, spread
over the rounds, a site's worker, its messenger, its SuperNode, the server's process, the SuperLink,
or a SuperNode and the server at once are killed; what is not replaced by itself is started again.
With ``min_clients`` at all three sites, a round that lost an update ends the run, and the next
start repeats the round. With ``--out`` an attack that was stopped goes on where it was.

    python tests/attacks/network_kills.py [--kills 20] [--seed 1] [--rounds 10] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
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
from fedgrain.errors import FedgrainError
from fedgrain.files import append_line
from fedgrain.records.audit import read_audit
from flower_network import Network, Started, command_of, free_port, processes_with

SITES = ["museum", "zoo", "herbarium"]
PROGRAMS = {
    "worker": ["fedgrain.sites.worker"],
    "messenger": ["fedgrain.membership.messenger"],
    "SuperNode": ["fedgrain.membership.supernode"],
    "server": ["flwr-serverapp"],
    "SuperLink": ["flower-superlink"],
    "SuperNode and server": ["fedgrain.membership.supernode", "flwr-serverapp"],
}
START_SECONDS = 60.0  # after which a run whose server never appeared is started again
LATEST = 2.0  # seconds after which a kill that is due is done


class Attack:
    """A federation under attack."""

    def __init__(self, folder: Path, config: Config, seed: int, kills: int) -> None:
        self.folder, self.config, self.seed, self.kills = folder, config, seed, kills
        self.result, self.log = folder / "run" / "result.json", folder / "kills.jsonl"
        self.killed = self._lines(self.log)
        write_app(folder / "app", App(config, None), Operation(SITES, folder / "run"))
        place, port = folder / f"network-{time.time_ns()}", free_port()
        link = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port),
                "--disable-runtime-dependency-installation",
                "--database", str(place / "home" / "link.db")]  # fmt: skip
        self.network = Network(place, link=link, port=port)
        self.nodes: dict[str, Started] = {}
        self.runs: list[Started] = []
        self.begun, self.seen = 0.0, False

    @staticmethod
    def _lines(path: Path) -> list[dict[str, object]]:
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def rounds(self) -> int:
        """Return how many rounds are complete."""
        return len(self._lines(self.folder / "run" / "metrics.jsonl"))

    def _running(self, program: str) -> list[int]:
        home = f"FLWR_HOME={self.network.home}"
        return [p for p in sorted(processes_with(home)) if program in command_of(p)]

    def keep_going(self) -> None:
        """Start again what has ended: the SuperLink, sites, and the run."""
        if self.network.link.process.poll() is not None:
            self.network.link.kill()  # the rest of its group
            self.network.start_server()
        for number, site in enumerate(SITES):
            node = self.nodes.get(site)
            if node is None or node.process.poll() is not None:
                if node is not None:
                    node.kill()
                record = self.folder / f"{site}.jsonl"
                self.nodes[site] = self.network.node(
                    site, f'partition-id={number} record="{record}"'
                )
        serving = bool(self._running("flwr-serverapp"))
        self.seen |= serving
        late = self.seen or time.monotonic() > self.begun + START_SECONDS
        if not serving and (late or not self.runs) and not self.result.exists():
            if self.runs:
                self.runs[-1].kill()
            self.runs.append(self.network.run(self.folder / "app", f"run{len(self.runs)}"))
            self.begun, self.seen = time.monotonic(), False

    def strike(self, what: str, moments: random.Random) -> bool:
        """Kill what is asked for, one process of each kind, if all of it is there."""
        found = [self._running(program) for program in PROGRAMS[what]]
        if not all(found):
            return False
        for processes in found:
            os.kill(moments.choice(processes), signal.SIGKILL)
        return True

    def go(self, minutes: float) -> None:
        """Kill and start again until the run ends; a kill is due when its round has come."""
        end, due, began = time.monotonic() + 60 * minutes, 0.0, time.monotonic()
        while not self.result.exists() and time.monotonic() < end:
            self.keep_going()
            number, done = len(self.killed), self.rounds()
            moments = random.Random(f"{self.seed} {number}")
            what, wait = moments.choice(list(PROGRAMS)), moments.uniform(0, LATEST)
            if number < self.kills and done >= number * (self.config.rounds - 1) // self.kills:
                due = due or time.monotonic() + wait
                if time.monotonic() >= due and self.strike(what, moments):
                    self.killed.append({"what": what, "after round": done})
                    append_line(self.log, json.dumps(self.killed[-1]))
                    spent = time.monotonic() - began
                    print(f"{number + 1:3} of {self.kills}  {what:20}  after round {done} of "
                          f"{self.config.rounds}  {spent:5.0f} s", flush=True)  # fmt: skip
                    due = 0.0
            time.sleep(0.1)


def records_that_verify(paths: list[Path]) -> tuple[int, int]:
    """Return how many records verify, and their entries together."""
    good, entries = 0, 0
    for path in paths:
        try:
            entries += read_audit(path).entries
            good += 1
        except FedgrainError as error:
            print(error, file=sys.stderr)
    return good, entries


def judge(attack: Attack) -> bool:
    """Compare with one process, print the summary, and return whether all is well."""
    folder, kinds = attack.folder, [str(kill["what"]) for kill in attack.killed]
    run(attack.config, folder / "here", workers=1)
    there, here = folder / "run" / "best.safetensors", folder / "here" / "best.safetensors"
    same = there.exists() and there.read_bytes() == here.read_bytes()
    records = [folder / "run" / "record.jsonl", *(folder / f"{s}.jsonl" for s in SITES)]
    good, entries = records_that_verify(records)
    told = ", ".join(f"{what} {kinds.count(what)}" for what in PROGRAMS)
    print(
        f"{len(kinds)} kills in {attack.config.rounds} rounds ({told}), {len(attack.runs)} starts "
        f"of the run; the same model to the byte: {'yes' if same else 'NO'}; records that verify: "
        f"{good} of {len(records)}, {entries} entries; seed {attack.seed}"
    )
    return same and good == len(records) and len(kinds) >= attack.kills


def main() -> None:
    """Attack, and compare with one process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="at most (60)")
    parser.add_argument("--out", type=Path, help="a folder; the same one continues the attack")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and so end all that was started
    config = Config(
        dataset="own_parts:few_glyphs", net="own_parts:SmallNet", clients=3, min_clients=3,
        alpha=0.5, max_children=4, join_ratio=1.0, rounds=args.rounds, patience=args.rounds,
        client_time_limit=40.0,
    ).complete()  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        attack = Attack((args.out or Path(name)).absolute(), config, args.seed, args.kills)
        with attack.network:
            attack.go(args.minutes)
        if not judge(attack):
            sys.exit(1)


if __name__ == "__main__":
    main()
