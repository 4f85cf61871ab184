"""How far and where each client moved the model, against the updates themselves."""

import numpy as np
import pytest
import torch

from fedgrain.federated.movement import WIDTH, Movements

TRAINED = {"layer", "bias"}


def state(values: np.ndarray) -> dict[str, torch.Tensor]:
    tensor = torch.from_numpy(values.astype(np.float32))
    return {"layer": tensor[1:].clone(), "bias": tensor[:1].clone(), "counter": torch.tensor(3)}


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(("size", "within"), [(50, 1e-5), (20 * WIDTH, 5 / WIDTH**0.5)])
def test_length_and_cosine_with_the_others(size, within):
    random = np.random.default_rng(1)
    common = random.normal(size=size)
    updates = [common + random.normal(size=size), 3 * common + random.normal(size=size), -common]
    samples = [1, 5, 2]
    start, movements = random.normal(size=size), Movements()
    for client, update in enumerate(updates):
        after = state(start + update)
        movements.add(client, state(start), after, samples[client], TRAINED)
    lines = movements.lines()
    for client, update in enumerate(updates):
        others = sum(samples[o] * updates[o] for o in range(3) if o != client)
        assert lines[client]["moved"] == pytest.approx(np.linalg.norm(update), rel=1e-4)
        assert lines[client]["agrees"] == pytest.approx(cosine(update, others), abs=within)
    assert lines[2]["agrees"] < -0.5  # it pulled the model back


def test_alone_there_is_nobody_to_agree_with():
    movements = Movements()
    movements.add(4, state(np.zeros(9)), state(np.ones(9)), 1, TRAINED)
    assert movements.lines() == {4: {"moved": 3.0, "agrees": None}}
