"""Studies by name: the paper's, with the hyper-parameters and seeds of its appendix, and a demo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedgrain.errors import StudyError
from fedgrain.studies.methods import PAPER_HEADS
from fedgrain.studies.study import Study

_SEVEN_METHODS = (*(f"{head}/paper" for head in PAPER_HEADS), "fedbdft/paper")
_FOUR_METHODS = (
    "flat-softmax/paper",
    "softmax-margin/paper",
    "cond-softmax/paper",
    "fedbdft/paper",
)
_UNTIL_IT_STOPS: dict[str, Any] = {"rounds": 1000, "cycles": 1000}  # early stopping decides
SMALL: dict[str, Any] = {"seeds": tuple(range(47, 57)), "search_seeds": tuple(range(42, 47))}
LARGE: dict[str, Any] = {"seeds": tuple(range(47, 52)), "search_seeds": tuple(range(43, 46))}
_DEMO_METHODS = (
    "flat-softmax/paper",
    "cond-softmax/paper",
    "fedbdft/paper",
    "flat-softmax/projection",
)
PRESETS = ("demo", "paper-cifar100", "paper-tiny-imagenet", "paper-imagenet", "paper-zero-shot")


def preset(name: str, datasets: Sequence[str] | None = None) -> Study:
    """Return a study by name; ``datasets`` other than its own where asked."""
    if name not in PRESETS:
        raise StudyError(
            f"there is no study {name!r}; choose one of {', '.join(PRESETS)}, or give a TOML file"
        )
    if name == "demo":
        return Study(
            name,
            datasets=tuple(datasets or ("glyphs",)),
            methods=_DEMO_METHODS,
            alphas=(0.0, 0.9),
            seeds=(47, 48, 49),
            settings={"rounds": 18, "cycles": 5, "lr": 0.1},
        )
    zero_shot = name == "paper-zero-shot"
    chosen = tuple(datasets or (("cifar100",) if zero_shot else (name.removeprefix("paper-"),)))
    large = chosen == ("imagenet",)
    return Study(
        name,
        datasets=chosen,
        methods=_FOUR_METHODS if large else _SEVEN_METHODS,
        alphas=(0.0,) if zero_shot else (0.0, 0.3, 0.6, 0.9),
        zero_shot=zero_shot,
        search=True,
        settings=_UNTIL_IT_STOPS,
        **(LARGE if large else SMALL),
    )
