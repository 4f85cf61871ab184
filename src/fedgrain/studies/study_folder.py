"""The folder of a study: where its runs are, and whether it is still the same study."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from fedgrain.catalogue import stages
from fedgrain.checksums import read_checked
from fedgrain.errors import StudyError
from fedgrain.files import parts_of
from fedgrain.runs.going_on import CAPS
from fedgrain.studies.planned_runs import plan_runs
from fedgrain.studies.study import MAY_GROW, Study
from fedgrain.studies.study_file import read_study

_SEARCHED = ", which was used in the search and cannot change after it"
Rates = dict[str, dict[str, dict[str, float]]]  # data set -> head or algorithm -> setting -> value


class StudyFolder:
    """Paths of one study."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.study = self.path / "study.toml"
        self.runs = self.path / "runs"
        self.search_runs = self.path / "search"
        self.search = self.path / "search.json"
        self.tested = self.path / "tested"
        self.failures = self.path / "failures.json"
        self.lock = self.path / ".lock"

    def rates(self) -> Rates:
        """Return the learning rates found; empty without a search."""
        if not self.search.exists():
            return {}
        return cast(Rates, self.read_search()["rates"])

    def read_search(self) -> dict[str, Any]:
        """Read the results of the search."""
        again = "remove the file to search again"
        found, _ = read_checked(self.search, again, StudyError)
        for part, levels in (("rates", 3), ("tables", 2)):
            if not _nested(found.get(part), levels):
                raise StudyError(f"{self.search}: {part} is missing or damaged; {again}")
        of_heads = [table for by_head in found["tables"].values() for table in by_head.values()]
        if not all(_nested(table.get("validation_hf"), 2) for table in of_heads):
            raise StudyError(f"{self.search}: tables is missing or damaged; {again}")
        return found


def _nested(content: Any, levels: int) -> bool:
    """Return whether content is nested objects to a depth, with numbers or null below."""
    if levels == 0:
        return isinstance(content, dict | float | int | None)
    return isinstance(content, dict) and all(_nested(c, levels - 1) for c in content.values())


def check_folder(study: Study, place: StudyFolder) -> None:
    """Refuse the folder of another study; in the same study, grid, rounds and cycles may grow."""
    if not place.study.exists():
        parts = parts_of(place.path, [place.study.name]) if place.path.exists() else []
        strangers = sorted(p.name for p in place.path.glob("*") if p not in (place.lock, *parts))
        if strangers:
            raise StudyError(
                f"{place.path}: the folder is not empty and not a study ({strangers[0]}); "
                "choose a new folder"
            )
        return
    before = read_study(place.study).complete()
    _check_schedules(before, study, place)
    for name in vars(before):
        old, new = getattr(before, name), getattr(study, name)
        if name in ("settings", "search_settings", "method_settings"):
            both = sorted({*old, *new})
            grown = {n for n in CAPS if name == "settings" and new[n] > old[n]}
            searched = grown.difference(study.search_settings) if study.search else set()
            differing = [
                f"{n} ({old.get(n)} and {new.get(n)}{_SEARCHED if n in searched else ''})"
                for n in both
                if old.get(n) != new.get(n) and n not in grown - searched
            ]
        elif name in MAY_GROW:
            differing = [
                f"{name} without {value}" for value in old or () if value not in (new or ())
            ]
        else:
            differing = [f"{name} ({old} and {new})"] if old != new else []
        if differing:
            raise StudyError(
                f"{place.path}: the folder holds a study with other settings: "
                f"{', '.join(differing)}; choose another folder: only the grid, the rounds and "
                "the cycles may grow"
            )


def _check_schedules(before: Study, study: Study, place: StudyFolder) -> None:
    """Refuse more rounds for runs whose cosine schedule was planned with fewer."""
    old = {run.name: run.config for run in plan_runs(before, {})}
    for run in plan_runs(study, {}):
        config = old.get(run.name)
        if config is None or run.config.schedule != "cosine":
            continue
        caps = [entry.cap for entry in stages(config.algorithm)]
        grown = [cap for cap in caps if getattr(run.config, cap) > getattr(config, cap)]
        if grown:
            raise StudyError(
                f"{place.path}: {grown[0]} cannot grow, since {run.name} has a cosine schedule "
                f"over {getattr(config, grown[0])} {grown[0]}; choose another folder"
            )
