"""Studies by name: the paper's, with the seeds of its appendix, a demo, and alone or together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedgrain.config.config import Config
from fedgrain.errors import StudyError
from fedgrain.studies.methods import PAPER_HEADS, is_bound, method_name
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
    "flat-softmax/learned",
    "oracle:flat-softmax",
)
PRESETS = (
    "demo",
    "alone",
    "paper-cifar100",
    "paper-tiny-imagenet",
    "paper-imagenet",
    "paper-zero-shot",
)


def preset(
    name: str,
    datasets: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    methods: Sequence[str] | None = None,
) -> Study:
    """Return a study by name; ``datasets`` other than its own where asked.

    The study ``alone`` also depends on the ``settings`` of its runs and the ``methods`` asked for.
    """
    if name not in PRESETS:
        raise StudyError(
            f"there is no study {name!r}; choose one of {', '.join(PRESETS)}, or give a TOML file"
        )
    if name == "demo":
        return Study(
            name,
            datasets=tuple(datasets or ("glyphs",)),
            methods=_DEMO_METHODS,
            alphas=(0.9,),
            seeds=(47, 48, 49),
            settings={"rounds": 10, "cycles": 3, "lr": 0.1},
        )
    if name == "alone":
        return _alone(tuple(datasets or ("folder",)), settings or {}, methods)
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


def _alone(
    datasets: tuple[str, ...], settings: Mapping[str, Any], methods: Sequence[str] | None
) -> Study:
    """Return each site of a manifest alone, all together, and all images at one place.

    The method is the default for these settings unless ``methods`` says otherwise; bounds that
    ``methods`` names replace the two that are added for each method.
    """
    given = {"partition": "manifest", "knowledge": "inferred", **settings}
    usual = method_name(Config(dataset=datasets[0], **given).complete())
    chosen = tuple(methods or (usual,))
    if not any(map(is_bound, chosen)):
        bounds = ("local-only", "centralised")
        chosen = tuple(f for m in chosen for f in (m, *(f"{bound}:{m}" for bound in bounds)))
    return Study("alone", datasets, chosen, seeds=(47,), settings=given)
