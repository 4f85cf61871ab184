"""FedAvg rounds in pfl-research's simulated backend, one for each "go"; in pfl's own environment.

pfl shards a cohort over processes when told their addresses (PFL_WORKER_ADDRESSES): the first
process starts the others and passes every "go" on, since none may begin a round before it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch
from peer_side import BATCH, JOINING, LR, THREADS, Answers, Net, client_count, client_data
from torch import Tensor
from torch.nn import functional

PROCESSES = int(os.environ["FEDGRAIN_BENCH_WORKERS"])
RANK = int(os.environ.get("PFL_WORKER_RANK", "0"))


def start_others() -> list[subprocess.Popen[str]]:
    """Start the other processes of pfl's cluster on this machine."""
    if RANK or PROCESSES == 1:
        return []
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(PROCESSES)]
        for each in sockets:
            each.bind(("localhost", 0))
        addresses = ",".join(f"localhost:{each.getsockname()[1]}" for each in sockets)
    os.environ.update(PFL_WORKER_ADDRESSES=addresses, PFL_WORKER_RANK="0")
    command = [sys.executable, __file__]
    return [
        subprocess.Popen(
            command,
            env={**os.environ, "PFL_WORKER_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(1, PROCESSES)
    ]


answers = Answers()
others = start_others()  # before pfl is imported: the import joins the cluster
torch.set_num_threads(THREADS)

from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.data.pytorch import PyTorchTensorDataset  # noqa: E402
from pfl.data.sampling import get_user_sampler  # noqa: E402
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics, Weighted  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402


class PflNet(Net):
    """The net with the two methods pfl asks for."""

    def loss(self, images: Tensor, classes: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        return functional.cross_entropy(self(images), classes)

    @torch.no_grad()
    def metrics(self, images: Tensor, classes: Tensor) -> dict[str, Any]:
        """Return the loss as a metric; used in the first, untimed round only."""
        return {"loss": Weighted(self.loss(images, classes).item() * len(images), len(images))}


class OneRoundAtATime(TrainingProcessCallback):
    """Waits for a "go" before every round, and tells how long it took."""

    def __init__(self) -> None:
        self.began = 0.0

    def on_train_begin(self, *, model: Any) -> Metrics:
        """Wait for the first round."""
        answers.say(ready=True)
        self._await()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Answer, and wait for the next round."""
        answers.say(seconds=time.perf_counter() - self.began)
        return not self._await(), Metrics()

    def _await(self) -> bool:
        wanted = answers.wait_for_go()
        for other in others:
            assert other.stdin is not None
            if wanted:
                other.stdin.write("go\n")
                other.stdin.flush()
            else:
                other.stdin.close()
        self.began = time.perf_counter()
        return wanted


def main() -> None:
    """Train until the input ends."""
    np.random.seed(47)  # noqa: NPY002 - pfl samples users from the global state, alike in all ranks
    torch.manual_seed(47)
    clients = list(range(client_count()))
    users = FederatedDataset(
        lambda client: PyTorchTensorDataset(client_data(client), user_id=str(client)),
        get_user_sampler("minimize_reuse", clients),
    )
    net = PflNet()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=10**6,
            evaluation_frequency=10**9,
            train_cohort_size=JOINING,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=users, val_data=users),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LR, local_batch_size=BATCH
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=BATCH),
        callbacks=[OneRoundAtATime()],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    try:
        main()
    finally:
        for other in others:
            other.kill()
            other.wait()
