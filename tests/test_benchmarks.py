"""The benchmarks fit the library they measure; .ci/run runs each of them with --quick."""

import sys
from pathlib import Path

import pytest

from fedgrain.arithmetic import one_thread
from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine
from fedgrain.federated import TrainingSettings
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.fedbdft import FedBDFT

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


def test_the_work_of_a_round_and_a_cycle_is_done(monkeypatch) -> None:
    """What round.py and scale.py measure; it broke when clients got several labellers."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from peers.raw_bound import pieces_of
    from peers.work import LOCAL, SEED, EvaluationOff, federation_of, random_images

    federation = federation_of(random_images(200), 2, validation=0.2, each=32)
    settings = TrainingSettings(seed=SEED, local=LOCAL, join_ratio=0.5)
    with one_thread():
        trainer = ClientTrainer(federation, ModelSpec("cnn-32", "cond-softmax"), settings)
        engine = EvaluationOff(SequentialEngine(trainer))
        _, report = FedAvg(settings).apply(FedAvg(settings).init(trainer.model.initial), engine)
        assert [client["samples"] for client in report.clients] == [32]
        start = FedBDFT(settings).decoupled(trainer.model.decouple(trainer.model.initial), engine)
        FedBDFT(settings).apply(start, engine)
        assert len(engine.tasks) > 1
        pieces = pieces_of(trainer, federation.taxonomy.internal.tolist())
        for task in engine.tasks:
            rows, targets = pieces[task.client, task.branch]
            assert rows.shape == targets.shape


@pytest.mark.parametrize("script", sorted(path.name for path in BENCHMARKS.glob("*.py")))
def test_every_benchmark_has_a_quick_form(script) -> None:
    assert '"--quick"' in (BENCHMARKS / script).read_text()


def test_ci_runs_every_benchmark() -> None:
    assert "make bench-quick" in (ROOT / ".ci" / "run").read_text()
    assert "for script in benchmarks/*.py" in (ROOT / "Makefile").read_text()
