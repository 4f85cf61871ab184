"""Is it better than alone? Each site's own model against the model of all, image by image.

For a method of a study with real sites and its bounds ``local-only:METHOD`` and, if it is there,
``centralised:METHOD``. All are scored on the same test images, so a difference has an interval from
those images even with one seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.studies.image_scores import ImageScores
from fedgrain.studies.methods import is_bound
from fedgrain.tables.collect import Results
from fedgrain.tables.intervals import resampled_interval
from fedgrain.tables.study_tables import Cell, Column, Table

_Scores = NDArray[np.float64]  # [seeds, images]
_FEW = 30  # images with which a bootstrap interval is trustworthy
_VERDICTS = {True: "better together", False: "worse together", None: "no clear difference"}


@dataclass(frozen=True)
class AloneRow:
    """Alone and together on one set of test images; HF is cut back where a label is coarse."""

    dataset: str
    method: str
    site: str | None  # None: all sites
    own_images: bool  # tested on the site's own test images, not on everyone's
    images: int
    in_full: int  # of these labelled with a leaf class
    seeds: int
    alone: float
    together: float
    pooled: float | None
    difference: float  # together - alone
    interval: tuple[float, float] | None  # 95%; None with a single image
    in_full_alone: float | None  # the same over the images labelled with a leaf class
    in_full_together: float | None

    @property
    def name(self) -> str:
        """The row's name in a table."""
        whose = "own images" if self.own_images else "everyone's images"
        return f"{'all sites' if self.site is None else self.site}, {whose}"

    @property
    def better(self) -> bool | None:
        """Whether together is better; None if the interval holds zero, or there is none."""
        if self.interval is None or self.interval[0] <= 0 <= self.interval[1]:
            return None
        return self.difference > 0

    @property
    def sentence(self) -> str:
        """The row as a site reads it."""
        who = "All sites" if self.site is None else f"Site {self.site}"
        sure = f"{self.difference:+.2f}"
        if self.interval is not None:
            sure += f", 95 % interval {self.interval[0]:+.2f} to {self.interval[1]:+.2f}"
        whose = ("their own" if self.site is None else "its own") if self.own_images else "all"
        labelled = "" if self.in_full == self.images else f", {self.in_full} of them named in full"
        return (
            f"{who}: alone {self.alone:.2f}, together {self.together:.2f} ({sure}) on {whose} "
            f"{self.images} test images{labelled}: {_VERDICTS[self.better]}."
        )

    def content(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return {**asdict(self), "sentence": self.sentence}


def alone_rows(results: Results) -> list[AloneRow]:
    """Compare every method that was also trained at each site alone."""
    study, rows = results.study, list[AloneRow]()
    for dataset in study.datasets:
        for method in study.methods:
            if is_bound(method) or f"local-only:{method}" not in study.methods:
                continue
            for alpha in study.skews:
                of_cell = [
                    results.by_image.get((dataset, name, alpha), {})
                    for name in (method, f"local-only:{method}", f"centralised:{method}")
                ]
                together, alone, pooled = of_cell
                seeds = [s for s in together if s in alone and (not pooled or s in pooled)]
                models = [[*together[s], *alone[s], *pooled.get(s, [])] for s in seeds]
                first = models[0][0] if models else None
                if first is not None and _same_images(first, models):
                    values = np.array([[one.hf for one in of_seed] for of_seed in models])
                    rows += _compared(dataset, method, first, values, bool(pooled))
    return rows


def _same_images(first: ImageScores, models: Sequence[Sequence[ImageScores]]) -> bool:
    return all(one.same_images(first) for of_seed in models for one in of_seed)


def _compared(
    dataset: str, method: str, about: ImageScores, values: NDArray[np.float64], has_pooled: bool
) -> list[AloneRow]:
    """Return the rows of a method.

    ``values`` are HF [seeds, models, images]: together, each site alone, pooled if it is there.
    """
    sites = range(len(about.sites))
    together, alone = values[:, 0], values[:, 1 : 1 + len(about.sites)]
    pooled = values[:, -1] if has_pooled else None
    everyone, named = np.ones(len(about.site), np.bool_), about.site >= 0
    by_owner = np.zeros_like(together)  # each image by the model of its own site
    for number in sites:
        by_owner[:, about.site == number] = alone[:, number, about.site == number]
    asked: list[tuple[str | None, bool, NDArray[np.bool_], _Scores]] = [
        *((about.sites[n], True, about.site == n, alone[:, n]) for n in sites),
        (None, True, named, by_owner),
        *((about.sites[n], False, everyone, alone[:, n]) for n in sites),
        (None, False, everyone, alone.mean(axis=1)),
    ]
    rows = []
    for site, own, chosen, scores in asked:
        if not chosen.any():
            continue
        full = chosen & about.in_full
        rows.append(
            AloneRow(
                dataset,
                method,
                site,
                own,
                images=int(chosen.sum()),
                in_full=int(full.sum()),
                seeds=len(values),
                alone=float(scores[:, chosen].mean()),
                together=float(together[:, chosen].mean()),
                pooled=None if pooled is None else float(pooled[:, chosen].mean()),
                difference=float((together - scores)[:, chosen].mean()),
                interval=resampled_interval((together - scores)[:, chosen]),
                in_full_alone=float(scores[:, full].mean()) if full.any() else None,
                in_full_together=float(together[:, full].mean()) if full.any() else None,
            )
        )
    return rows


def alone_tables(rows: Sequence[AloneRow]) -> list[Table]:
    """Return a table per data set and method."""
    counts = (Column("test images", "all", digits=0), Column("test images", "in full", digits=0))
    scores = tuple(Column("HF", name) for name in ("alone", "together", "pooled"))
    change = tuple(
        Column("together - alone", name, signed=True) for name in ("mean", "95% from", "to")
    )
    tables = []
    for dataset, method in dict.fromkeys((row.dataset, row.method) for row in rows):
        lines = []
        for row in rows:
            if (row.dataset, row.method) == (dataset, method):
                low, high = row.interval or (None, None)
                figures = (row.images, row.in_full, row.alone, row.together, row.pooled)
                cells = (*figures, row.difference, low, high)
                made = tuple(None if one is None else Cell(float(one)) for one in cells)
                lines.append((row.name, made))
        title = f"Better than alone? {dataset}, {method}"
        tables.append(Table(title, "site, tested on", (*counts, *scores, *change), tuple(lines)))
    return tables


def alone_headline(rows: Sequence[AloneRow]) -> str:
    """Return the answer in a sentence or two, for the first method."""
    method = rows[0].method
    own = [row for row in rows if row.method == method and row.own_images and row.site is not None]
    whole = next(row for row in rows if row.method == method and row.site is None)
    last = [r for r in rows if r.method == method and r.site is None and not r.own_images]
    text = ""
    if own:
        counts = [(word, sum(row.better is key for row in own)) for key, word in _VERDICTS.items()]
        spoken = ", ".join(f"{word} for {count}" for word, count in counts if count)
        text = f"Of {len(own)} sites, each on its own test images: {spoken}. "
    return text + (last[0] if last else whole).sentence


def alone_note(rows: Sequence[AloneRow]) -> str:
    """Return how to read the table."""
    several, few = rows[0].seeds >= 3, any(row.images < _FEW for row in rows)
    note = (
        "HF: hierarchical F, cut back where a label is not a leaf class (in full: it is one); "
        "all sites, own images: each image by the model of its own site; all sites, everyone's "
        "images: the mean over the sites' models; 95%: bootstrap over test images"
        + (" and seeds." if several else ", which does not cover chance in training (--seeds).")
    )
    return note + f" With fewer than {_FEW} images it is too narrow." * few
