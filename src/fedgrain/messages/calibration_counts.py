"""What sites send of their validation images to calibrate a model: sums and counts, no samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import RecordDict

from fedgrain.calibration.record import (
    COUNTED,
    Calibration,
    Labelled,
    SiteCounts,
    calibration_of,
)
from fedgrain.calibration.score_counts import CELLS, ScoreCounts
from fedgrain.calibration.temperature_sums import (
    TEMPERATURES,
    Sums,
    best_temperature,
    temperature_sums,
)
from fedgrain.heads import Head
from fedgrain.messages.limits import count_limit
from fedgrain.messages.wire import whole_number
from fedgrain.taxonomy.tree import Taxonomy

TEMPERATURE, COUNTS = "temperature", "counts"  # what a site is asked for, one after the other
CALIBRATION = "calibration"  # the record of an answer
SOURCE = "the validation images of the sites"
# nats per image: a least mean loss above this is no model's, and no image speaks louder than this
_MOST_LOSS, _MOST_REGRET = 50.0, 10.0
Ask = Callable[[str, Mapping[str, str]], Mapping[int, Mapping[str, Any]]]


def calibrates(content: RecordDict) -> bool:
    """Return whether a message asks for what calibrates a model."""
    about = content.config_records.get("about")
    return about is not None and about.get("what") in (TEMPERATURE, COUNTS)


def sums_sent(sums: Sums) -> dict[str, list[float]]:
    """Return sums of losses as a site sends them."""
    return {"sums": sums.tolist()}


def counted_at_site(head: Head, part: Labelled, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a site sends when it is asked to calibrate."""
    if about["what"] == TEMPERATURE:
        return dict(sums_sent(temperature_sums(head, *part)))
    return dict(counts_sent(SiteCounts.of(head, part, float(str(about["temperature"])))))


def sums_read(scores: Mapping[str, Any]) -> Sums | None:
    """Read sums of losses; None if a site sent something else, or losses that no model has.

    How much worse one temperature is than another counts up to a limit for each image. So a site
    with few images cannot choose the temperature of all by claiming enormous losses.
    """
    try:
        sums = np.array([float(value) for value in scores["sums"]])
        whole_number(sums[-1])
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        return None
    good = len(sums) == len(TEMPERATURES) + 1 and np.isfinite(sums).all() and (sums >= 0).all()
    if not good or (least := sums[:-1].min()) > _MOST_LOSS * sums[-1]:
        return None
    return np.append(np.minimum(sums[:-1], least + _MOST_REGRET * sums[-1]), sums[-1])


def counts_sent(counts: SiteCounts) -> dict[str, list[int]]:
    """Return counts of scores as a site sends them: cell, count, cell, count and so on."""
    sent = {}
    for name in COUNTED:
        table: ScoreCounts = getattr(counts, name)
        for label, row in zip(table.labels.tolist(), table.counts, strict=True):
            cells = np.flatnonzero(row)
            sent[f"{name} {label}"] = np.stack([cells, row[cells]], 1).ravel().tolist()
    return sent


def counts_read(scores: Mapping[str, Any], tree: Taxonomy) -> SiteCounts | None:
    """Read counts of scores; None if a site sent something else, or of unlike numbers of images."""
    parts: dict[str, list[tuple[int, int, int]]] = {name: [] for name in COUNTED}
    try:
        for key, row in scores.items():
            name, label = key.split(" ")
            cells, counts = (list(map(whole_number, row[side::2])) for side in (0, 1))
            if not 0 <= int(label) < len(tree) or not all(cell < CELLS for cell in cells):
                return None
            parts[name] += [(int(label), *pair) for pair in zip(cells, counts, strict=True)]
    except (KeyError, TypeError, ValueError):
        return None
    found = [_counted(rows) for rows in parts.values()]
    return SiteCounts(*found) if len({table.images for table in found}) == 1 else None


def _counted(rows: list[tuple[int, int, int]]) -> ScoreCounts:
    labels = np.unique(np.array([row[0] for row in rows], np.int64))
    counts = np.zeros((len(labels), CELLS), np.int64)
    for label, cell, count in rows:
        counts[np.searchsorted(labels, label), cell] += count
    return ScoreCounts(labels, counts)


def calibrated_by_sites(ask: Ask, tree: Taxonomy, most: int | None) -> Calibration | None:
    """Ask all sites for sums, then for counts at the temperature that fits them best.

    A site whose images would outweigh all others is left out, and so is one that counts other
    images than it had sums of; None if nobody answers.
    """
    sums = {site: sums_read(sent) for site, sent in ask(TEMPERATURE, {}).items()}
    good = {site: found for site, found in sums.items() if found is not None and found[-1] > 0}
    images = {site: float(found[-1]) for site, found in good.items()}
    believed = [site for site in good if images[site] <= _limit(site, images, most)]
    if not believed:
        return None
    temperature = best_temperature([good[site] for site in believed])
    answers = ask(COUNTS, {"temperature": repr(temperature)})
    counts = {site: counts_read(answers[site], tree) for site in believed if site in answers}
    fitting = [
        one for site, one in counts.items() if one is not None and one.nodes.images == images[site]
    ]
    return calibration_of(temperature, fitting, SOURCE) if fitting else None


def _limit(site: int, images: Mapping[int, float], most: int | None) -> float:
    others = [count for other, count in images.items() if other != site]
    limit = count_limit(others, most)
    return math.inf if limit is None else limit
