"""A site that lies to the server: the round goes on, and the model is what it would be without it.

Four sites, three of them honest, answer a real engine; the messages are Flower's, and only the
network is left out. What the server made of the lie is compared, to the bit, with what it makes of
a liar that is away, one whose training or scoring fails, one that tells the truth, or one that
claims as many samples as the server believes (TIMES_MEDIAN times the median of the others).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from attacks.harness import Case, Told, WrongError, alone, as_command
from attacks.lies import Attack, attacks, counting, failing, truth
from attacks.world import World

NAMES = ["museum", "zoo", "herbarium", "aquarium"]
LIAR = 1
LABELS = [["a1", "a2", "b1", "c", "a"], ["a3", "b2", "b", "c"], ["a1", "b1", "b2", "r"],
          ["a2", "a3", "b2", "c"]]  # fmt: skip
VALIDATION = [["a1", "b1"], ["a3", "c", "b2"], ["a", "b1", "c", "c"], ["a2", "b2", "c"]]
LONGEST_TOLD = 1000  # characters of anything that the server says of a site


def cases(world: World, seed: int) -> list[Case]:
    """Return a case per lie."""
    references = {
        name: played(Attack(name, lie, (name,)))
        for name, lie in {
            "honest": truth,
            "away": failing("query", "train", "evaluate"),
            "untrained": failing("train"),
            "whole untrained": failing("train", holding="whole"),
            "unscored": failing("evaluate"),
            "believed": counting(believed_count()),
        }.items()
    }
    return [Case(attack.name, _attempt(attack, references)) for attack in attacks(seed)]


def _attempt(attack: Attack, references: dict[str, Any]) -> Callable[[Any], None]:
    def attempt(scratch: Any) -> None:
        def play() -> None:
            print(json.dumps(played(attack)))

        told: Told = alone(lambda: as_command(play)).judged()
        if told.code:
            raise WrongError(f"the round ended: {told.err[-300:]!r}")
        found = json.loads(told.out.splitlines()[-1])
        same = [n for n, other in references.items() if found["result"] == other["result"]]
        if not set(same) & set(attack.allowed):
            raise WrongError(f"the model is as for {same or 'none of the references'}, "
                        f"not {' or '.join(attack.allowed)}")  # fmt: skip
        check_told(found["said"])

    return attempt


def check_told(said: Sequence[str]) -> None:
    """Check that nothing the server says can forge a line of its log or fill it."""
    for text in said:
        if not text.isprintable() or len(text) > LONGEST_TOLD:
            raise WrongError(f"the server says {text[:200]!r} ({len(text)} characters)")


# a federation


def played(attack: Attack) -> dict[str, Any]:
    """Play two rounds of fedavg and a cycle of fedbdft; return what they gave and what was said."""
    from fedgrain.federated.fedavg import FedAvg
    from fedgrain.federated.fedbdft import FedBDFT

    engine, settings = engine_with(attack)
    said = list(engine.refresh())
    state = FedAvg(settings).init(engine.model.initial)
    results: list[Any] = []
    for _ in range(2):
        state, report = FedAvg(settings).apply(state, engine)
        results.append(report.validation_hf)
        said += [line["fault"] for line in report.faults]
    branches = FedBDFT(settings).decoupled(engine.model.decouple(state.best), engine)
    branches, report = FedBDFT(settings).apply(branches, engine)
    weights = [state.weights, *(branch.weights for branch in branches.branches.values())]
    return {"result": [results, [_digest(part) for part in weights]], "said": said}


def engine_with(attack: Attack) -> tuple[Any, Any]:
    """Return an engine over four sites and a liar among or beside them, and the settings."""
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.supercore.task_identity import TaskIdentity

    from fedgrain.deployment.flower_engine import FlowerEngine
    from fedgrain.deployment.server_record import ServerRecord
    from fedgrain.engines import ClientTrainer, ModelSpec, SequentialEngine
    from fedgrain.federated import LocalSettings, TrainingSettings
    from fedgrain.records.chain import Chain
    from fedgrain.sites.site import Site
    from flower_wire import Wire, at
    from small_federation import federation

    for name in ("_run_id", "_task_id", "_node_id"):
        setattr(TaskIdentity, name, 1)
    settings = TrainingSettings(join_ratio=1.0, rounds=2, cycles=2, local=LocalSettings(batch=4),
                branch=LocalSettings(lr=0.05, batch=4), min_branch_samples=2)  # fmt: skip
    spec = ModelSpec(net="own_parts:SmallNet", head="cond-softmax")
    whole = federation(LABELS, client_validation=VALIDATION)
    trainers = [
        ClientTrainer(replace(whole, clients=(client,)), spec, settings) for client in whole.clients
    ]
    sites = [Site(n, SequentialEngine(t)) for n, t in zip(NAMES, trainers, strict=True)]
    answers = {10 + number: at(site) for number, site in enumerate(sites)}
    honest, liar = answers[10 + LIAR], 10 + len(NAMES) if attack.beside else 10 + LIAR
    answers[liar] = lambda message: attack.lie(message.metadata.message_type, honest(message))
    wire = Wire(answers)
    owners = {10 + number: (name, name) for number, name in enumerate(NAMES)}
    for node, (name, key) in {**owners, liar: (attack.registered, attack.key)}.items():
        wire.infos[node] = NodeInfo(
            node_id=node, online_until=1.0, name=name, public_key=key.encode()
        )
    engine = FlowerEngine(
        wire, ClientTrainer(whole, spec, settings).model, NAMES, settings, time_limit=300.0,
        roster=roster(), record=ServerRecord(Chain(Path(mkdtemp()) / "record.jsonl", "the server")),
    )  # fmt: skip
    return engine, settings


def roster() -> Any:
    """Return what decides who may take part, with a key on record for every name."""
    from fedgrain.deployment.key_record import Roster

    class Keys(Roster):
        def look(self) -> dict[str, bytes]:
            return {name: name.encode() for name in NAMES}

    return Keys(None)


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(b"".join(v.numpy().tobytes() for v in state.values())).hexdigest()


def believed_count() -> int:
    """Return how many samples the server believes a site whose fellows have about four."""
    from fedgrain.messages.limits import TIMES_MEDIAN

    return 4 * TIMES_MEDIAN
