"""A close look at one run of a study, and the finished runs of each of its cells."""

from __future__ import annotations

from fedgrain.config.config import Config
from fedgrain.plugins import Trust
from fedgrain.report.close_look import look_closely
from fedgrain.report.close_view import Look
from fedgrain.runs.run_folder import RunFolder
from fedgrain.sections.answers import Watch
from fedgrain.sections.knowledge_block import knowledge_block
from fedgrain.studies.methods import Skew, is_bound, skew_name
from fedgrain.studies.planned_runs import cell_runs
from fedgrain.studies.study_folder import Rates, StudyFolder
from fedgrain.tables.collect import Results


def finished_runs(
    results: Results, place: StudyFolder, rates: Rates, cell: tuple[str, str, Skew]
) -> list[RunFolder]:
    """Return the finished runs of a data set, method and alpha, over all seeds."""
    study = results.study
    names = (name for seed in study.seeds for name in cell_runs(study, *cell, seed, rates))
    places = [RunFolder(place.runs / name) for name in names]
    return [found for found in places if found.result.exists()]


def look_at_best(
    results: Results, place: StudyFolder, rates: Rates, images: bool, trust: Trust, watch: Watch
) -> tuple[Look, RunFolder | None]:
    """Inspect the best method at the largest skew: its first finished run."""
    study, metric = results.study, list(results.metrics)[-1]
    dataset = study.datasets[0]
    methods = [m for m in study.methods if not is_bound(m)]
    for alpha in reversed(study.ascending):
        means = {m: results.estimate(dataset, m, alpha, metric) for m in methods}
        order = sorted((m for m in methods if means[m]), key=lambda m: -means[m].mean)  # type: ignore[union-attr]
        for method in order:
            for found in finished_runs(results, place, rates, (dataset, method, alpha)):
                if found.model.exists():
                    configs = _knowledge_configs(results, rates, dataset, method)
                    name = found.path.name
                    look = look_closely(
                        found, name, configs, images=images, trust_code=trust, watch=watch
                    )
                    if look.knowledge:
                        chosen_by = "alpha" if study.simulated else ""
                        look.blocks.append(knowledge_block(look.knowledge, chosen_by))
                    return look, found
    return Look(notes=["No finished run has a model to look at."]), None


def _knowledge_configs(
    results: Results, rates: Rates, dataset: str, method: str
) -> dict[str, Config]:
    """Return a config per alpha, the largest first: at a seed every method has the same clients."""
    study = results.study
    cells = {
        skew_name(alpha) or "knowledge": cell_runs(
            study, dataset, method, alpha, study.seeds[0], rates
        )
        for alpha in reversed(study.ascending)
    }
    return {name: next(iter(runs.values())) for name, runs in cells.items()}
