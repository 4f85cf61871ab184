"""Who moved the model: how far each site's updates went, and whether where the others' did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from fedgrain.catalogue import rounds_axis
from fedgrain.pages.page import curves_view
from fedgrain.pages.page_parts import Block, View
from fedgrain.pages.page_tables import Sheet, sheet

_MOST_CURVES = 12  # sites; those that differ most from the others
_FAR = 3.0  # times the median of the round
_LEAST_CLIENTS = 3  # that tell what is usual in a round

Course = list[float | None]  # a value per round; None where the site took no part


def movement_block(lines: Sequence[Mapping[str, Any]]) -> Block | None:
    """Return how the sites moved the model, from the rounds of a run; None if nothing is known."""
    far, along = _courses(lines)
    if not far:
        return None
    shown = sorted(far, key=lambda site: -_oddity(far[site], along[site]))[:_MOST_CURVES]
    shown = [site for site in far if site in shown]
    across = rounds_axis()
    distance = curves_view(
        "distance", {site: far[site] for site in shown}, across, "length of update / median"
    )
    direction = curves_view(
        "direction", {site: along[site] for site in shown}, across, "cosine with the others"
    )
    return Block("movement", "Who moved the model", _text(far, along), (
        View("sites", distance.figure, _sites(far, along)), distance, direction
    ), "curve")  # fmt: skip


def _courses(lines: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Course], dict[str, Course]]:
    """Return, per site, the length of its update over the round's median, and its cosine."""
    told = [[one for one in line["clients"] if one.get("moved") is not None] for line in lines]
    names = dict.fromkeys(str(one["client"]) for own in told for one in own)
    far: dict[str, Course] = {name: [None] * len(lines) for name in names}
    along: dict[str, Course] = {name: [None] * len(lines) for name in names}
    for place, own in enumerate(told):
        usual = median(one["moved"] for one in own) if own else 0.0
        for one in own:
            name = str(one["client"])
            far[name][place] = one["moved"] / usual if usual > 0 else None
            along[name][place] = one["agrees"]
    return far, along


def _oddity(far: Course, along: Course) -> float:
    """Return how much a site differs: its farthest round, and how often it pulled back."""
    return max(_told(far), default=1.0) + sum(value < 0 for value in _told(along))


def _sites(far: Mapping[str, Course], along: Mapping[str, Course]) -> Sheet:
    rows = []
    for site in far:
        ways, cosines = _told(far[site]), _told(along[site])
        top = max(ways, default=None)
        rows.append((
            site, len(ways), median(ways) if ways else None, top,
            None if top is None else far[site].index(top) + 1,
            median(cosines) if cosines else None, sum(value < 0 for value in cosines),
        ))  # fmt: skip
    columns = (
        "site", "rounds with it", "distance (median)", "farthest", "in round",
        "cosine with the others (median)", "rounds against them",
    )  # fmt: skip
    return sheet("Updates of the sites, compared with the others' of the same round", columns, rows)


def _text(far: Mapping[str, Course], along: Mapping[str, Course]) -> str:
    """Say what the plots show, and name the sites an operator should look at."""
    text = (
        "How far each site's update moved the model in a round (1 is the median of that round's "
        "sites), and its cosine with the mean of the others' updates: 1 is the same direction, 0 "
        "none in common, below 0 is against them. "
    )
    sites = len(far)
    odd = []
    for site in far if sites >= _LEAST_CLIENTS else ():
        top = max(_told(far[site]), default=0.0)
        cosines = _told(along[site])
        against = sum(value < 0 for value in cosines)
        if top > _FAR:
            odd.append(f"{site} moved it {top:.1f} times as far as usual in one round")
        elif cosines and against > len(cosines) / 2:
            odd.append(f"{site} moved it against the others in {against} of {len(cosines)} rounds")
    if odd:
        return text + "Look at: " + "; ".join(odd) + "."
    return text + "No site stands out." * (sites >= _LEAST_CLIENTS)


def _told(course: Course) -> list[float]:
    return [value for value in course if value is not None]
