"""One arithmetic of fedgrain: rounds in a process of its own, timed by the CPU time they take.

``round.py`` starts one such process for each mode, with ``FEDGRAIN_ARITHMETIC`` in its environment.
Wall-clock time would count whatever else the machine does; the time of the process does not.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fedgrain  # noqa: F401  # isort: skip - before torch: it settles the arithmetic
import torch

from fedgrain.arithmetic import in_use
from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine
from fedgrain.federated import TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from peers.peer_side import Answers
from peers.work import LOCAL, SEED, EvaluationOff, federation_of, random_images

CLIENTS = 10


def main() -> None:
    """Run a round for each "go"."""
    answers = Answers()
    torch.set_num_threads(1)
    each = int(os.environ["FEDGRAIN_BENCH_IMAGES"])
    if in_use() != os.environ["FEDGRAIN_ARITHMETIC"]:
        answers.say(error=f"computes in {in_use()} arithmetic")
        return
    images = random_images(2 * CLIENTS * each)
    federation = federation_of(images, CLIENTS, validation=0.2, each=each)
    settings = TrainingSettings(seed=SEED, local=LOCAL)
    trainer = ClientTrainer(federation, ModelSpec("cnn-32", "flat-softmax"), settings)
    engine, state = (
        EvaluationOff(SequentialEngine(trainer)),
        FedAvg(settings).init(trainer.model.initial),
    )
    answers.say(ready=True)
    while answers.wait_for_go():
        began = time.process_time()
        state, _ = FedAvg(settings).apply(state, engine)
        answers.say(seconds=time.process_time() - began)


if __name__ == "__main__":
    main()
