"""What a federated algorithm is: explicit state in, new state out (after fedjax).

The rest of the house runs, stores, resumes and tests an algorithm through this contract and never
asks which one it is. An algorithm of your own is one file with a subclass; ``--algorithm
module:callable`` names what makes it, called with the settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from fedgrain import catalogue
from fedgrain.errors import ConfigError
from fedgrain.federated.averaging import State
from fedgrain.federated.engine import Engine
from fedgrain.federated.round_report import RoundReport
from fedgrain.federated.settings import TrainingSettings
from fedgrain.plugins import call_own, load_callable

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A state as a file holds it: tensors by name, and JSON about them."""

    tensors: State
    about: dict[str, Any]

    def part(self, prefix: str) -> State:
        """Return the tensors whose names begin with ``prefix/``, without the prefix."""
        start = f"{prefix}/"
        found = self.tensors.items()
        return {name.removeprefix(start): value for name, value in found if name.startswith(start)}


def encoded(parts: Mapping[str, State], about: dict[str, Any]) -> Encoded:
    """Put states together under their prefixes, for :meth:`Encoded.part` to take apart."""
    tensors = {
        f"{prefix}/{name}": v for prefix, state in parts.items() for name, v in state.items()
    }
    return Encoded(tensors, about)


@dataclass(frozen=True, eq=False)
class FinalModel:
    """The weights an algorithm ends with, under the names the model gives them, and how it went."""

    weights: State
    validation_hf: float | None  # None if there was nothing to judge by
    rounds: int
    cycles: int = 0
    by_branch: bool = False  # a net per branch, not one for the whole tree
    untrained_branches: tuple[int, ...] = ()


class FederatedAlgorithm(ABC, Generic[S]):
    """One federated algorithm with its settings. Every method is a pure function of its state."""

    name: ClassVar[str]

    def __init__(self, settings: TrainingSettings) -> None:
        self.settings = settings

    @abstractmethod
    def init(self, weights: State) -> S:
        """Return the state before the first round."""

    @abstractmethod
    def finished(self, state: S, engine: Engine) -> bool:
        """Return whether no round is left."""

    @abstractmethod
    def apply(self, state: S, engine: Engine) -> tuple[S, RoundReport]:
        """Run one round and return the new state with a report on the round."""

    @abstractmethod
    def next_round(self, state: S) -> tuple[str, int]:
        """Return the stage and the number of the round that :meth:`apply` would run."""

    @abstractmethod
    def encode(self, state: S) -> Encoded:
        """Return the state as it is stored between two rounds."""

    @abstractmethod
    def decode(self, stored: Encoded) -> S:
        """Return the state that :meth:`encode` stored."""

    @abstractmethod
    def final_model(self, state: S, engine: Engine) -> FinalModel:
        """Return what the training ends with."""

    def next_stage(self, state: S, engine: Engine) -> S:
        """Return the state in which the next stage begins, if this one has ended; else the same.

        Called before every round. A new stage follows from the state alone, so a resumed run
        makes it again.
        """
        return state


def build_algorithm(name: str, settings: TrainingSettings) -> FederatedAlgorithm[Any]:
    """Return an algorithm by name, or the user's own ``module:callable``."""
    if name in catalogue.ALGORITHMS:
        home = catalogue.ALGORITHMS[name].home
        ours: FederatedAlgorithm[Any] = load_callable(home, "algorithm", ConfigError)(settings)
        return ours
    own = call_own(name, "algorithm", ConfigError, settings, called_with="the settings")
    if not isinstance(own, FederatedAlgorithm):
        raise ConfigError(
            f"algorithm {name!r} made a {type(own).__name__}, not a FederatedAlgorithm"
        )
    return own
