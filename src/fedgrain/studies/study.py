"""A study: a grid of methods, alphas, seeds and data sets (its runs: `planned_runs.py`).

Real sites have no alpha: where no generator decides who knows what, the grid has no such axis.

A study is a folder: ``study.toml``, ``runs/`` and, after a search of learning rates, ``search/``
and ``search.json``. Every run in it is an ordinary run folder, so an interrupted study resumes when
it is started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any

from fedgrain import catalogue
from fedgrain.config import defaults
from fedgrain.config.config import Config
from fedgrain.config.config_checks import check_server
from fedgrain.config.defaults import CLIENTS, federation
from fedgrain.config.setting_fields import toml_value
from fedgrain.errors import StudyError
from fedgrain.studies.methods import (
    GRID,
    Method,
    Skew,
    is_simulated,
    parse_method,
)

_IMAGENET_SAMPLE = 42  # seed of the images for the search
_ALPHAS = (0.0, 0.3, 0.6, 0.9)
MAY_GROW = ("datasets", "methods", "alphas", "seeds", "sites")


@dataclass(frozen=True)
class Study:
    """What to compare. ``settings`` are those of every run's config."""

    name: str
    datasets: tuple[str, ...] = ("glyphs",)
    methods: tuple[str, ...] = ("flat-softmax/paper",)
    alphas: tuple[float, ...] | None = None  # None: 0, 0.3, 0.6 and 0.9, if it is simulated
    seeds: tuple[int, ...] = tuple(range(47, 57))
    zero_shot: bool = False
    search: bool = False  # learning rates first, at alpha 0, by validation HF
    candidates: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2)
    branch_candidates: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.05)
    search_seeds: tuple[int, ...] = tuple(range(42, 47))
    search_settings: Mapping[str, Any] = field(default_factory=dict)  # for example fewer rounds
    settings: Mapping[str, Any] = field(default_factory=dict)
    # of one head, or an algorithm with a rate of its own, under every supervision
    method_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sites: tuple[str, ...] = ()  # the clients of the manifest, for the runs of each alone

    def __post_init__(self) -> None:
        for name in ("datasets", "methods", "alphas", "seeds", "candidates", "branch_candidates",
                     "search_seeds"):  # fmt: skip
            values = getattr(self, name)
            if values is None:
                continue
            if not values:
                raise StudyError(f"study {self.name}: {name} is empty; give at least one value")
            if len(set(values)) < len(values):
                raise StudyError(f"study {self.name}: {name} has a value twice: {values}")
        compared = {parse_method(method).searched_as for method in self.methods}
        for name in self.method_settings:
            if name not in compared:
                raise StudyError(
                    f"method_settings has {name!r}, but the study has {', '.join(sorted(compared))}"
                )
        by_method = [name for own in self.method_settings.values() for name in own]
        for name in (*self.settings, *self.search_settings, *by_method):
            if name in GRID:
                raise StudyError(f"setting {name} is decided by the grid of a study; remove it")
        if self.alphas is not None and not self.simulated:
            raise StudyError(
                f"alphas are {', '.join(f'{a:g}' for a in self.alphas)}, but with knowledge "
                f"{self._federation['knowledge']} nothing is simulated, so there is no alpha; "
                f"remove them, or choose one of {', '.join(catalogue.KNOWLEDGE_GENERATORS)}"
            )
        if self.zero_shot and self.skews != (0.0,):
            raise StudyError("zero-shot needs alpha 0: set alphas to 0")
        for config in self.of_first_seed():  # refuse bad settings before any run
            check_server(config)

    @property
    def simulated(self) -> bool:
        """Whether a generator decides who knows what, by alpha."""
        return is_simulated(self._federation["knowledge"])

    @property
    def _federation(self) -> dict[str, Any]:
        """Whose images, and who knows what; simulated if neither a setting nor the data says."""
        given: dict[str, Any] = {
            n: self.settings.get(n) for n in ("partition", "knowledge", "clients")
        }
        alphas = self.alphas
        if not any(given.values()) and alphas is None:
            alphas = _ALPHAS
        alpha = None if alphas is None else alphas[0]
        return federation(Config(dataset=self.datasets[0], alpha=alpha, **given))

    @property
    def own_sites(self) -> bool:
        """Whether the clients are the user's own: those of a manifest."""
        return bool(self._federation["partition"] == "manifest")

    @property
    def skews(self) -> tuple[Skew, ...]:
        """The axis of alphas; a single None where nothing is simulated."""
        if not self.simulated:
            return (None,)
        return _ALPHAS if self.alphas is None else self.alphas

    @property
    def ascending(self) -> list[Skew]:
        """The axis of alphas, the smallest first."""
        return sorted(self.skews, key=lambda alpha: alpha or 0.0)

    def of_first_seed(self) -> list[Config]:
        """Return the configs of the grid and of the search at one seed; other seeds are alike."""
        found = []
        for dataset, method, alpha in product(self.datasets, self.methods, self.skews):
            found += self.configs(dataset, method, alpha, self.seeds[0])
        if self.search:
            seed = self.search_seeds[0]
            compared = {parse_method(method).searched_as for method in self.methods}
            for dataset, searched in product(self.datasets, sorted(compared)):
                setting = rate_setting(searched)
                for value in self.tried(setting):
                    found.append(self.search_config(dataset, searched, seed, setting, value, {}))
        return found

    def code(self) -> frozenset[str]:
        """Return the user's own code it names, as ``module:callable``."""
        return frozenset().union(*(config.code() for config in self.of_first_seed()))

    def configs(
        self,
        dataset: str,
        method: str | Method,
        alpha: Skew,
        seed: int,
        rates: Mapping[str, float] | None = None,
    ) -> list[Config]:
        """Return the configs of one cell of the grid: several for local-only, one for the rest."""
        parsed = parse_method(method) if isinstance(method, str) else method
        given = {**self.settings, "zero_shot": self.zero_shot}
        return self._configs(
            given, parsed, alpha, {**(rates or {}), "dataset": dataset, "seed": seed}
        )

    def _configs(
        self, given: Mapping[str, Any], method: Method, alpha: Skew, on_top: Mapping[str, Any]
    ) -> list[Config]:
        """Return the runs of a method: the study's settings, then the method's, then ``on_top``."""
        common = {**given, **self.method_settings.get(method.searched_as, {}), **on_top}
        clients = Config(alpha=0.0, clients=given.get("clients")).complete().clients or CLIENTS
        if self.own_sites:
            clients = len(self.sites) or 1  # the first stands for all until they are known
        return [Config(**{**common, **one}).complete() for one in method.settings(alpha, clients)]

    def search_config(
        self,
        dataset: str,
        searched: str,
        seed: int,
        setting: str,
        value: float,
        rates: Mapping[str, Mapping[str, float]],
    ) -> Config:
        """Return the run of one candidate of the search: alpha 0, and all classes seen."""
        given = {**self.settings, **self.search_settings, "zero_shot": False}
        entry = catalogue.algorithm(searched)
        start = rates.get(entry.head, {}) if entry.begins_with and entry.head else {}
        on_top = {**start, setting: value, "dataset": dataset, "seed": seed}
        alpha = 0.0 if self.simulated else None
        (config,) = self._configs(given, parse_method(f"{searched}/paper"), alpha, on_top)
        return replace(config, sample_seed=_IMAGENET_SAMPLE) if dataset == "imagenet" else config

    def tried(self, setting: str) -> tuple[float, ...]:
        """Return the candidates of a search for a setting."""
        return self.candidates if setting == "lr" else self.branch_candidates

    def complete(self) -> Study:
        """Return the study with every default of a run's settings written out."""
        trunk: dict[str, Any] = {n: self.settings.get(n) for n in ("net", "net_weights", "train")}
        known = Config(alpha=0.0, **trunk)
        if not any(catalogue.dataset(dataset).own_images for dataset in self.datasets):
            known = replace(known, **federation(known), **defaults.rates(known))
        # of own images the data decides about both
        given = {**known.settings(), **self.settings}
        if self.simulated:  # older studies recorded it, although it had no meaning
            given["min_count"] = None
        kept = {n: v for n, v in given.items() if v is not None and n not in GRID}
        alphas = tuple(alpha for alpha in self.skews if alpha is not None)
        return replace(self, settings=kept, alphas=alphas or None)

    def toml(self) -> str:
        """Return all of it as TOML."""
        content = {name: value for name, value in asdict(self).items() if value is not None}
        tables = {name: content.pop(name) for name in ("search_settings", "settings")}
        for method, own in content.pop("method_settings").items():
            tables[f"method_settings.{toml_value(method)}"] = own
        lines = [f"{name} = {toml_value(value)}" for name, value in content.items()]
        for table, settings in tables.items():
            lines += ["", f"[{table}]"]
            lines += [f"{name} = {toml_value(value)}" for name, value in settings.items()]
        return "\n".join(lines) + "\n"


def rate_setting(searched: str) -> str:
    """Return the setting that is searched for a head, or an algorithm with its own rate."""
    return catalogue.algorithm(searched).rate
