"""The contract of a federated algorithm: explicit state in, new state out (after fedjax).

The rest of the package runs, stores, resumes and tests an algorithm only through this contract.
Your own algorithm is one file with a subclass; ``--algorithm module:callable`` names the function
or class that makes it, which is called with the settings.
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
from fedgrain.scoring.validation_score import ValidationScore

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A state in the form it is stored: tensors by name, and JSON metadata."""

    tensors: State
    about: dict[str, Any]

    def part(self, prefix: str) -> State:
        """Return the tensors whose names start with ``prefix/``, without the prefix."""
        start = f"{prefix}/"
        found = self.tensors.items()
        return {name.removeprefix(start): value for name, value in found if name.startswith(start)}


def encoded(parts: Mapping[str, State], about: dict[str, Any]) -> Encoded:
    """Combine states under prefixes; :meth:`Encoded.part` returns them again."""
    tensors = {
        f"{prefix}/{name}": v for prefix, state in parts.items() for name, v in state.items()
    }
    return Encoded(tensors, about)


@dataclass(frozen=True, eq=False)
class FinalModel:
    """The final weights, by the model's names, and a summary of the training."""

    weights: State
    validation: ValidationScore | None  # None without validation samples
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
        """Return whether training has ended."""

    @abstractmethod
    def apply(self, state: S, engine: Engine) -> tuple[S, RoundReport]:
        """Run one round and return the new state with a report on the round."""

    @abstractmethod
    def next_round(self, state: S) -> tuple[str, int]:
        """Return the stage and the number of the round that :meth:`apply` would run."""

    @abstractmethod
    def encode(self, state: S) -> Encoded:
        """Return the state in the form it is stored between two rounds."""

    @abstractmethod
    def decode(self, stored: Encoded) -> S:
        """Return the state that :meth:`encode` stored."""

    @abstractmethod
    def final_model(self, state: S, engine: Engine) -> FinalModel:
        """Return the final weights."""

    def next_stage(self, state: S, engine: Engine) -> S:
        """Return the first state of the next stage if this one has ended, else the same state.

        Called before every round. A new stage depends only on the state, so a resumed run gets
        the same one.
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
