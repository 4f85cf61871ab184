"""Every class with its score, and the pairs that are confused most."""

from __future__ import annotations

import numpy as np

from fedgrain.pages.page_parts import Section
from fedgrain.pages.page_tables import Entry, Sheet, percent, sheet
from fedgrain.scoring.breakdown import per_class
from fedgrain.sections.answers import Answers
from fedgrain.sections.confusion import often_confused


def classes_section(tested: Answers) -> Section:
    """Return the scores per class and the most confused pairs."""
    pairs = often_confused(tested)
    sheets = (pairs, _class_sheet(tested)) if pairs.rows else (_class_sheet(tested),)
    text = (
        f"Which classes the model finds in the {len(tested):,} {tested.split} images. With few "
        "images of a class its score says little: sort by the number of images."
    )
    return Section("classes", "The classes", text, sheets)


def _class_sheet(tested: Answers) -> Sheet:
    """Return a row per true class: how often it is found, and what it is taken for otherwise."""
    full, truth, found = tested.full_taxonomy, tested.truth, tested.found
    scores = per_class(truth, found, full)
    given = np.bincount(found, minlength=len(full))
    taken = _most_taken_for(tested)
    rows = []
    for place, node in enumerate(scores.nodes.tolist()):
        count, hits = int(scores.samples[place]), float(scores.accuracy[place])
        name = " / ".join(full.names[n] for n in full.path(node).tolist()[1:]) or full.names[0]
        precision = hits * count / given[node] if given[node] else None
        other = taken.get(node)
        mistaken = f"{full.names[other[0]]} ({other[1]})" if other else None
        rows.append(
            (
                Entry(name, name),
                count,
                round(hits * count),
                percent(hits),
                int(given[node]),
                percent(precision),
                float(scores.hf[place]),
                mistaken,
            )
        )
    rows.sort(key=lambda row: (-(row[1] - row[2]), row[0].text))
    columns = (
        "class", "images", "found", "share found", "named", "named rightly", "HF",
        "most often taken for",
    )  # fmt: skip
    return sheet("Every class, those with most mistakes first", columns, rows, searchable=True)


def _most_taken_for(tested: Answers) -> dict[int, tuple[int, int]]:
    """Return for each true class the node it is most often mistaken for, and how often."""
    wrong = tested.truth != tested.found
    if not wrong.any():
        return {}
    pairs, counts = np.unique(
        np.stack([tested.truth[wrong], tested.found[wrong]]), axis=1, return_counts=True
    )
    most: dict[int, tuple[int, int]] = {}
    for (truth, found), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
        if count > most.get(truth, (0, 0))[1]:
            most[truth] = (found, count)
    return most
