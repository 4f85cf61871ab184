"""The methods a study compares, by name.

``<head>/<supervision>`` is FedAvg with that head. An algorithm that works with one head only goes
by its own name, ``fedbdft/<supervision>``; any other is ``<algorithm>:<head>/<supervision>``. Head
and algorithm may be a user's own, ``mymodule:MyAlgorithm:mymodule:MyHead/<supervision>``. The
bounds of the method, section 10, are ``local-only``, ``centralised``, ``oracle`` and ``ceiling``,
on the head cond-softmax or as ``oracle:<head>`` on another, under the paper's rule, or of any
method as ``local-only:flat-softmax/projection``. Any of them may end in settings of its own,
``flat-softmax/projection+laziness=0.1``: a variant, compared under that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedgrain import catalogue
from fedgrain.config.config import Config
from fedgrain.config.config_texts import setting_of
from fedgrain.errors import ConfigError, StudyError

Skew = float | None  # an alpha; None where who knows what is not simulated

_BOUNDS = ("local-only", "centralised", "oracle", "ceiling")
_WITHOUT_SKEW = ("oracle", "ceiling")  # bounds in which every client knows every leaf
_POOLED = ("centralised", "ceiling")
PAPER_HEADS = (
    "flat-softmax",
    "cond-sigmoid",
    "ps-softmax",
    "softmax-descendant",
    "softmax-margin",
    "cond-softmax",
)


# Settings the grid decides in each run's config; the rest are the study's settings.
GRID = (
    "dataset", "algorithm", "head", "supervision", "first_stage_supervision", "alpha", "seed",
    "sample_seed", "zero_shot", "pooled", "only_client",
)  # fmt: skip


@dataclass(frozen=True)
class Method:
    """What a method sets in a config."""

    name: str
    algorithm: str
    head: str
    supervision: str
    bound: str | None = None
    own: Mapping[str, Any] = field(default_factory=dict)  # settings of a variant

    def settings(self, alpha: Skew, clients: int) -> list[dict[str, Any]]:
        """Return the settings of its runs: one, or one per client for local-only."""
        common: dict[str, Any] = {
            "algorithm": self.algorithm,
            "head": self.head,
            "supervision": self.supervision,
            **self.own,
        }
        if alpha is not None:
            common["alpha"] = 0.0 if self.bound in _WITHOUT_SKEW else alpha
        elif self.bound in _WITHOUT_SKEW:
            raise StudyError(
                f"method {self.name!r} is the run at alpha 0, but without a generator of knowledge "
                "there is no alpha; leave it out"
            )
        if self.bound in _POOLED:
            return [{**common, "pooled": True, "min_clients": 1}]
        if self.bound == "local-only":
            alone = {**common, "min_clients": 1}
            return [{**alone, "only_client": client} for client in range(clients)]
        return [common]

    @property
    def variant(self) -> str:
        """The part of its name after the first plus sign."""
        return self.name.partition("+")[2]

    @property
    def searched_as(self) -> str:
        """The head or algorithm whose learning rate it uses.

        At alpha 0 every supervision of a head is the same loss.
        """
        return rate_owner(self.algorithm, self.head)

    @property
    def staged(self) -> bool:
        """Whether it starts with another algorithm and has its own learning rate."""
        return catalogue.algorithm(self.algorithm).begins_with is not None

    @property
    def baseline(self) -> bool:
        """Whether it is a head trained by FedAvg under the paper's rule, as the paper compares.

        A variant is none: it is a rival, or the same head again.
        """
        plain = self.bound is None and not self.own
        return plain and (self.algorithm, self.supervision) == ("fedavg", "paper")


def rate_owner(algorithm: str, head: str) -> str:
    """Return the name a learning rate is searched for: the algorithm's, else its head's."""
    return head if catalogue.algorithm(algorithm).rate == "lr" else algorithm


def method_name(config: Config) -> str:
    """Return the name of a run's method in a study, without its variant."""
    entry = catalogue.algorithm(config.algorithm)
    head = config.head if entry.name == "fedavg" else f"{entry.name}:{config.head}"
    return f"{entry.name if entry.head else head}/{config.supervision or 'paper'}"


def parse_method(name: str) -> Method:
    """Return the method with this name."""
    plain, *variant = name.split("+")
    if variant:
        return replace(_parse_plain(plain), name=name, own=_own_settings(name, variant))
    return _parse_plain(name)


def _own_settings(name: str, texts: list[str]) -> dict[str, Any]:
    """Read the settings of a variant; it cannot change those of the grid."""
    try:
        pairs = [setting_of(text) for text in texts]
    except ConfigError as error:
        raise StudyError(f"method {name!r}: {error}") from None
    own = dict(pairs)
    if len(own) < len(pairs):
        raise StudyError(f"method {name!r} has a setting twice; keep one")
    for key in own:
        if key in GRID and key != "first_stage_supervision":
            raise StudyError(f"method {name!r}: {key} is decided by the grid of a study")
    return own


def skew_name(alpha: Skew) -> str:
    """Return how a column or a panel is headed; nothing where no skew is simulated."""
    return "" if alpha is None else f"alpha {alpha:g}"


def is_simulated(knowledge: str | None) -> bool:
    """Return whether a generator, ours or the user's, decides who knows what, by alpha."""
    if knowledge is None:
        return False
    own = ":" in knowledge and not knowledge.endswith(".json")
    return own or knowledge in catalogue.KNOWLEDGE_GENERATORS


def is_bound(name: str) -> bool:
    """Whether a method is a bound, which does not compete."""
    return parse_method(name).bound is not None


def _parse_plain(name: str) -> Method:
    bound, _, bound_head = name.partition(":")
    if bound in _BOUNDS:
        if ":" in name and not bound_head:
            raise StudyError(f"method {name!r}: a head is missing after the colon")
        if "/" in bound_head:
            return replace(_parse_plain(bound_head), name=name, bound=bound)
        head = bound_head or "cond-softmax"
        _check_supervision(name, head, "paper")
        return Method(name, "fedavg", head, "paper", bound)
    head, slash, supervision = name.rpartition("/")
    if not slash:
        raise StudyError(
            f"method {name!r} is neither <head>/<supervision>, such as flat-softmax/projection or "
            f"fedbdft/paper, nor one of {', '.join(_BOUNDS)}"
        )
    entry, head = _algorithm_and_head(head)
    if entry.head not in (None, head):
        raise StudyError(f"method {name!r}: {entry.name} needs the head {entry.head}, not {head}")
    if supervision not in entry.supervisions:
        raise StudyError(
            f"method {name!r}: {entry.name} takes supervision {' or '.join(entry.supervisions)}"
        )
    _check_supervision(name, head, supervision)
    return Method(name, entry.name, head, supervision)


def _algorithm_and_head(text: str) -> tuple[catalogue.AlgorithmEntry, str]:
    """Return what stands before the supervision: an algorithm, FedAvg if none, and a head.

    >>> [(entry.name, head) for entry, head in map(_algorithm_and_head, ["a:Mine", "b:Way:a:Mine"])]
    [('fedavg', 'a:Mine'), ('b:Way', 'a:Mine')]
    """
    first, _, rest = text.partition(":")
    if first in catalogue.ALGORITHMS:
        entry = catalogue.ALGORITHMS[first]
        return entry, rest or entry.head or ""
    called, _, after = rest.partition(":")
    if after:  # module:algorithm:head
        return catalogue.algorithm(f"{first}:{called}"), after
    return catalogue.ALGORITHMS["fedavg"], text


def _check_supervision(name: str, head: str, supervision: str) -> None:
    offered = tuple(catalogue.SUPERVISIONS)  # a user's own head is checked when it is built
    if head in catalogue.HEADS:
        offered = catalogue.HEADS[head].supervisions
    elif ":" not in head:
        known = [*(n for n, e in catalogue.ALGORITHMS.items() if e.head), *catalogue.HEADS]
        raise StudyError(
            f"method {name!r}: there is no head {head!r}; choose {', '.join(known)}, "
            "or your own as module:callable"
        )
    if supervision not in offered:
        raise StudyError(
            f"method {name!r}: {head} takes supervision {' or '.join(offered)}, "
            f"not {supervision or 'nothing'}"
        )
