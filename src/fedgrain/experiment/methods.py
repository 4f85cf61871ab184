"""The methods a study compares, by name.

``<head>/<supervision>`` is FedAvg with that head, ``fedbdft/<supervision>`` is FedBDFT, and the
bounds of section 10 are ``local-only``, ``centralised`` and ``oracle``, on the head cond-softmax or
as ``oracle:<head>`` on another, always under the paper's rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedgrain.errors import StudyError

BOUNDS = ("local-only", "centralised", "oracle")
PAPER_HEADS = (
    "flat-softmax",
    "cond-sigmoid",
    "ps-softmax",
    "softmax-descendant",
    "softmax-margin",
    "cond-softmax",
)


@dataclass(frozen=True)
class Method:
    """What a method sets in a config."""

    name: str
    algorithm: str
    head: str
    supervision: str
    bound: str | None = None

    def settings(self, alpha: float, clients: int) -> list[dict[str, Any]]:
        """Return the settings of its runs: one, or one per client for local-only."""
        common = {
            "algorithm": self.algorithm,
            "head": self.head,
            "supervision": self.supervision,
            "alpha": 0.0 if self.bound == "oracle" else alpha,
        }
        if self.bound == "centralised":
            return [{**common, "pooled": True}]
        if self.bound == "local-only":
            return [{**common, "only_client": client} for client in range(clients)]
        return [common]

    @property
    def searched_as(self) -> str:
        """Whose learning rate it takes: at alpha 0 every supervision of a head is the same loss."""
        return "fedbdft" if self.algorithm == "fedbdft" else self.head


def parse_method(name: str) -> Method:
    """Return the method of a name, or say what a name looks like."""
    bound, _, bound_head = name.partition(":")
    if bound in BOUNDS:
        if ":" in name and not bound_head:
            raise StudyError(f"method {name!r}: a head is missing after the colon")
        head = bound_head or "cond-softmax"
        _check_supervision(name, head, "paper")
        return Method(name, "fedavg", head, "paper", bound)
    head, slash, supervision = name.rpartition("/")
    if not slash:
        raise StudyError(
            f"method {name!r} is neither <head>/<supervision>, such as flat-softmax/projection or "
            f"fedbdft/paper, nor one of {', '.join(BOUNDS)}"
        )
    if head == "fedbdft":
        if supervision not in ("paper", "projection"):
            raise StudyError(f"method {name!r}: fedbdft takes supervision paper or projection")
        return Method(name, "fedbdft", "cond-softmax", supervision)
    _check_supervision(name, head, supervision)
    return Method(name, "fedavg", head, supervision)


def _check_supervision(name: str, head: str, supervision: str) -> None:
    from fedgrain.heads import HEADS, SUPERVISIONS

    if ":" in head:  # the user's own is asked when it is built
        offered: tuple[str, ...] = tuple(SUPERVISIONS)
    elif head in HEADS:
        offered = HEADS[head].supervisions
    else:
        raise StudyError(
            f"method {name!r}: there is no head {head!r}; choose fedbdft, {', '.join(HEADS)}, "
            "or your own as module:callable"
        )
    if supervision not in offered:
        raise StudyError(
            f"method {name!r}: {head} takes supervision {' or '.join(offered)}, "
            f"not {supervision or 'nothing'}"
        )
