"""A method's own head and algorithm, tried before a folder is told of the method."""

from __future__ import annotations

from collections.abc import Sequence

from fedgrain.benchmark.protocol import Track
from fedgrain.federated.algorithm import build_algorithm
from fedgrain.preparation.prepare import prepare
from fedgrain.runs.engine_choice import trainer_of


def check_own_parts(track: Track, methods: Sequence[str]) -> None:
    """Build the user's own code in these methods as their first run will; refuse what fails.

    The methods of a folder are never removed, so one that cannot run would fail there for ever.
    """
    for method in methods:
        study = track.study([method]).complete()
        config, *_ = study.configs(track.dataset, method, track.alphas[0], track.seeds[0])
        if config.code():
            prepared = prepare(config)
            build_algorithm(config.algorithm, prepared.settings)
            trainer_of(prepared, 1, "cpu")
