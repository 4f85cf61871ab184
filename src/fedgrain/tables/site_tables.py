"""The scores of a study site by site, where the sites are real: its axis instead of alpha."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedgrain.studies.image_scores import ImageScores
from fedgrain.tables.collect import Results
from fedgrain.tables.intervals import Estimate, estimate
from fedgrain.tables.study_tables import Column, Table, score_cell, with_ranks

EVERYONE = "all test images"
BySeed = Mapping[int, float]


def site_scores(results: Results, dataset: str) -> dict[str, dict[str, BySeed]]:
    """Return the last metric by method, by site and by seed; everyone's images are the first site.

    ``local-only`` at a site is that site's own model. Without test images that name their site
    only everyone's score is there.
    """
    study, metric = results.study, list(results.metrics)[-1]
    (alpha,) = study.skews
    found: dict[str, dict[str, BySeed]] = {}
    for method in study.methods:
        of_method: dict[str, BySeed] = {}
        all_of_them = results.by_seed(dataset, method, alpha, metric)
        if all_of_them:
            of_method[EVERYONE] = all_of_them
        tested = results.by_image.get((dataset, method, alpha), {})
        for name, number, images in _sites(tested):
            of_method[f"{name} ({images})"] = {
                seed: _mean_at(models, number) for seed, models in tested.items()
            }
        found[method] = of_method
    return found


def _sites(tested: Mapping[int, list[ImageScores]]) -> list[tuple[str, int, int]]:
    """Return the sites with test images: name, number, images."""
    for models in tested.values():
        owners = models[0].site
        counts = [int((owners == number).sum()) for number in range(len(models[0].sites))]
        return [(n, k, counts[k]) for k, n in enumerate(models[0].sites) if counts[k]]
    return []


def _mean_at(models: list[ImageScores], site: int) -> float:
    """Return the mean at a site of a cell's model; of several, each site has its own."""
    one = models[site] if len(models) > 1 else models[0]
    return float(np.mean(one.hf[one.site == site]))


def site_estimates(results: Results, dataset: str) -> dict[str, list[tuple[str, Estimate, BySeed]]]:
    """Return per method: the site, mean and interval over seeds, and the value of each seed."""
    return {
        method: [(site, estimate(list(seeds.values())), seeds) for site, seeds in by_site.items()]
        for method, by_site in site_scores(results, dataset).items()
    }


def site_tables(results: Results) -> list[Table]:
    """Return HF per method and site, a table per data set; nothing for simulated clients."""
    tables = []
    for dataset in results.study.datasets if not results.study.simulated else ():
        scores = site_scores(results, dataset)
        sites = dict.fromkeys(site for of in scores.values() for site in of if site != EVERYONE)
        if not sites:
            continue
        columns = [
            with_ranks(
                {
                    method: score_cell(estimate(list(of[site].values()))) if site in of else None
                    for method, of in scores.items()
                }
            )
            for site in sites
        ]
        rows = tuple((m, tuple(column[m] for column in columns)) for m in scores)
        heads = tuple(Column("HF by site (test images)", site) for site in sites)
        tables.append(Table(f"{dataset}, site by site", "method", heads, rows))
    return tables
