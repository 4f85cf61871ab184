"""Whether guarantees are kept: in all, per site, per depth of the answer and per class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgrain.images.images import LabelledImages
from fedgrain.pages.page_parts import Section
from fedgrain.pages.page_tables import Entry, Sheet, percent, sheet
from fedgrain.runs.coverage import held_shares
from fedgrain.sections.answers import Answers

_SPREAD = 2.0  # standard errors that chance explains
_USUAL = 0.9  # the guarantee that is shown per class

Found = Mapping[float, Mapping[str, Any]]


def coverage_section(tested: Answers, data: LabelledImages) -> Section | None:
    """Return the share of guaranteed answers that hold the truth; None if nothing is guaranteed.

    Only images labelled with a leaf count: whether an answer holds another truth is not known.
    """
    counted = tested.in_full & np.array(
        [nodes >= 0 for nodes in tested.guaranteed.values()] or [np.zeros(len(tested), np.bool_)]
    ).all(0)
    if not counted.any():
        return None
    tree = tested.taxonomy
    truth, numbers = tested.truth_in_h[counted], tested.numbers[counted]
    found = {}
    for guarantee, all_nodes in tested.guaranteed.items():
        nodes = all_nodes[counted]
        held = np.asarray(tree.is_ancestor(nodes, truth))
        found[guarantee] = {
            "held": float(held.mean()),
            "one leaf": float(tree.is_leaf(nodes).mean()),
            "leaves": float(tree.leaf_counts[nodes].mean()),
            **held_shares(held, nodes, truth, data, numbers, tree),
        }
    sheets = [_in_all(found, len(truth), tested.calibrated_on)]
    sheets += [_by_group(found, "per_site", "site", "Kept per site")] if _sites(found) else []
    sheets.append(_by_group(found, "per_depth", "depth", "Kept per depth of the answer"))
    sheets.append(_by_class(found))
    return Section("coverage", "Are its guarantees kept?", _spoken(tested), tuple(sheets))


def _spoken(tested: Answers) -> str:
    text = (
        "With a guarantee of 0.9 the model stops at the most specific class that should hold the "
        "truth in at least 90% of images. The promise is for all images together, not for each "
        "site, depth or class."
    )
    if tested.split == "validation":
        text += " These images may also have calibrated the model: the shares are too high."
    return text


def _sites(found: Found) -> bool:
    return any(own["per_site"] for own in found.values())


def _in_all(found: Found, images: int, calibrated_on: int) -> Sheet:
    rows = []
    for guarantee, own in found.items():
        chance = math.sqrt(guarantee * (1 - guarantee) * (1 / images + 1 / max(calibrated_on, 1)))
        kept = own["held"] >= guarantee - _SPREAD * chance
        verdict = "yes" if own["held"] >= guarantee else "within chance" if kept else "no"
        shares = (_fine(own["held"]), Entry(verdict, verdict), percent(own["one leaf"]))
        rows.append((f"{guarantee:g}", images, *shares, float(own["leaves"])))
    columns = ("guarantee", "images", "answers that hold the truth", "kept", "one leaf",
               "leaves left open, mean")  # fmt: skip
    note = (
        f"The model was calibrated on {calibrated_on:,} images. Within chance: below the guarantee "
        "by at most two standard errors, with that many images to calibrate and to check."
    )
    return sheet("Kept in all", columns, rows, note)


def _by_group(found: Found, key: str, name: str, title: str) -> Sheet:
    """Return a row per group, with the images and the share of each guarantee."""
    groups = dict.fromkeys(row[name] for own in found.values() for row in own[key])
    by_guarantee = [{row[name]: row for row in own[key]} for own in found.values()]
    rows = []
    for group in sorted(groups, key=int) if name == "depth" else groups:
        cells: list[Any] = [int(group) if name == "depth" else group]
        for own in by_guarantee:
            row = own.get(group)
            cells += (0, None) if row is None else (row["images"], _fine(row["covered"]))
        rows.append(cells)
    columns = [("", name)]
    columns += [(f"{guarantee:g}", part) for guarantee in found for part in ("images", "held")]
    made = sheet(title, [part for _, part in columns], rows)
    return Sheet(made.title, tuple(columns), made.rows)


def _by_class(found: Found) -> Sheet:
    guarantee = _USUAL if _USUAL in found else max(found)
    rows = [
        (row["class"], row["images"], _fine(row["covered"]))
        for row in sorted(found[guarantee]["per_class"], key=lambda row: row["covered"])
    ]
    title = f"Kept per class at {guarantee:g}, the lowest first"
    columns = ("class", "images", "answers that hold the truth")
    return sheet(title, columns, rows, searchable=True)


def _fine(share: float) -> Entry:
    """Return a share with the digit that tells 90% from 90.4%."""
    return Entry(f"{100 * share:.1f}%", share)
