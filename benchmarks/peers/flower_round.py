"""FedAvg rounds in Flower's simulation, one for each "go"; runs in Flower's own environment.

The loop is that of Flower's ``Strategy.start`` without evaluation: ``configure_train``, the grid,
``aggregate_train``. A round is timed in the server app.
"""

from __future__ import annotations

import os
import time

from flower_app import client_app
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peer_side import FOLDER, JOINING, Answers, Net, client_count

ROUND_LIMIT = 240.0  # seconds
answers = Answers()
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run a round whenever asked."""
    clients = client_count()
    strategy = FedAvg(
        fraction_train=JOINING / clients, fraction_evaluate=0.0, min_available_nodes=clients
    )
    arrays, number = ArrayRecord(Net().state_dict()), 0
    answers.say(ready=True)
    while answers.wait_for_go():
        number += 1
        began = time.perf_counter()
        messages = list(strategy.configure_train(number, arrays, ConfigRecord({}), grid))
        replies = list(grid.send_and_receive(messages, timeout=ROUND_LIMIT))
        lost = [reply for reply in replies if reply.has_error()]
        if lost or len(replies) != JOINING:
            answers.say(error=f"{len(lost)} of {len(replies)} clients failed: {lost[:1]}")
            return
        averaged, _ = strategy.aggregate_train(number, replies)
        arrays = averaged if averaged is not None else arrays
        answers.say(seconds=time.perf_counter() - began)


if __name__ == "__main__":
    processors = int(os.environ["FEDGRAIN_BENCH_WORKERS"])
    run_simulation(
        server_app,
        client_app,
        num_supernodes=client_count(),
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {
                "num_cpus": processors,
                "include_dashboard": False,
                "_temp_dir": str(FOLDER / "ray"),
            },
        },
    )
