"""The sites: how many images they have, at which depth they label them, how well each is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.images.images import LabelledImages
from fedgrain.models.label_check import Wrote
from fedgrain.pages.page_parts import Section
from fedgrain.pages.page_tables import Entry, Sheet, percent, sheet
from fedgrain.scoring.metrics import hierarchical_scores
from fedgrain.sections.answers import Answers
from fedgrain.taxonomy import Taxonomy

_MOST_COLUMNS = 12  # sites; more do not fit beside each other
_MOST_DEPTHS = 12


@dataclass(frozen=True, eq=False)
class SiteLabels:
    """The labels a site wrote, as nodes of H."""

    name: str
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    knows: NDArray[np.bool_]  # [nodes of H]
    wrote: Wrote | None = None  # the labels to train on, with their images and labellers

    @property
    def labels(self) -> NDArray[np.int64]:
        """All of them."""
        return np.concatenate([self.train, self.validation])


def sites_section(
    sites: Sequence[SiteLabels], tested: Answers, data: LabelledImages, rounds: Sheet | None
) -> Section:
    """Return what the sites have and how the model does for them."""
    tree = tested.taxonomy
    sheets = [_images_sheet(sites, tree), _scores_sheet(sites, tested, data)]
    sheets += [rounds] if rounds is not None else []
    sheets.append(_labels_sheet(sites, tree))
    text = (
        "What each site has to learn from, and how well the final model serves it. Depth 1 is the "
        "level below the root; the deeper a label, the more it says."
    )
    return Section("sites", "The sites", text, tuple(sheets))


def _images_sheet(sites: Sequence[SiteLabels], tree: Taxonomy) -> Sheet:
    """Return a row per site: its images, and at which depth they are labelled."""
    deepest = min(int(tree.depth.max()), _MOST_DEPTHS)
    rows = []
    for site in sites:
        labels = site.labels
        depths = np.bincount(np.minimum(tree.depth[labels], deepest), minlength=deepest + 1)
        in_full = float(tree.is_leaf(labels).mean()) if len(labels) else None
        counts = (len(site.train), len(site.validation), len(np.unique(labels)))
        rows.append((site.name, *counts, percent(in_full), *depths.tolist()))
    shown = [
        f"depth {d}" if d < _MOST_DEPTHS else f"depth {d} and more" for d in range(1, deepest + 1)
    ]
    columns = ("site", "to train", "to validate", "different labels", "labelled in full")
    return sheet("Images per site and depth of label", (*columns, "root only", *shown), rows)


def _labels_sheet(sites: Sequence[SiteLabels], tree: Taxonomy) -> Sheet:
    """Return a row per label that was written, with the images of each site."""
    counts = np.stack([np.bincount(site.labels, minlength=len(tree)) for site in sites], axis=1)
    used = np.flatnonzero(counts.sum(axis=1))
    order = used[np.argsort(-counts[used].sum(axis=1), kind="stable")]
    few = len(sites) <= _MOST_COLUMNS
    rows = []
    for node in order.tolist():
        own = counts[node].tolist()
        per_site = own if few else [sum(count > 0 for count in own)]
        rows.append((_path(tree, node), int(tree.depth[node]), sum(own), *per_site))
    per_site_names = [site.name for site in sites] if few else ["sites that use it"]
    unused = len(tree.leaves) - int(tree.is_leaf(used).sum())
    note = f"{unused:,} classes are nobody's label." if unused else ""
    columns = ("label", "depth", "all sites", *per_site_names)
    return sheet("Images per label and site", columns, rows, note, searchable=True)


def _scores_sheet(sites: Sequence[SiteLabels], tested: Answers, data: LabelledImages) -> Sheet:
    """Return how well the model serves each site: its images, and classes it can or cannot name."""
    split = tested.split
    groups = [("", "site")]
    owned = data.clients is not None and bool((data.clients[tested.numbers] >= 0).any())
    parts = [f"its own {split} images"] if owned else []
    parts += ["classes it can name", "classes it cannot name"]
    groups += [(part, name) for part in parts for name in ("images", "exact class", "HF")]
    rows = []
    for site in sites:
        known = site.knows[tested.truth_in_h] & tested.in_full
        masks = [known, tested.in_full & ~known]
        if owned and data.clients is not None:
            number = data.client_names.index(site.name) if site.name in data.client_names else -2
            masks.insert(0, data.clients[tested.numbers] == number)
        cells: list[Any] = [site.name]
        for mask in masks:
            cells += _scores(tested, mask)
        rows.append(cells)
    made = sheet(
        f"Scores of the final model per site, on the {split} images",
        [name for _, name in groups],
        rows,
        "A class counts as one a site can name if its own labels go down to it. What it cannot "
        "name, the model learned from other sites.",
    )
    return Sheet(made.title, tuple(groups), made.rows, made.note)


def _scores(tested: Answers, mask: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return the images of a mask, the share that is right among those labelled in full, and HF."""
    if not mask.any():
        return 0, None, None
    truth, found = tested.truth[mask], tested.found[mask]
    leaf = tested.in_full[mask]
    exact = float((truth == found)[leaf].mean()) if leaf.any() else None
    hf = float(hierarchical_scores(truth, found, tested.full_taxonomy).hf.mean())
    return int(mask.sum()), percent(exact), hf


def _path(tree: Taxonomy, node: int) -> Entry:
    names = [tree.names[n] for n in tree.path(node).tolist()]
    text = " / ".join(names[1:]) or names[0]
    return Entry(text, text)


def rounds_sheet(lines: Sequence[Mapping[str, Any]]) -> Sheet | None:
    """Return how often each site took part in training, from the rounds of a run."""
    names = dict.fromkeys(
        str(one["client"])
        for line in lines
        for one in (*line["clients"], *line["faults"])
        if "client" in one
    )
    if not names:
        return None
    rows = []
    for name in names:
        joined = [
            [one for one in line["clients"] if str(one.get("client")) == name] for line in lines
        ]
        losses = [[o["loss"] for o in own if o.get("loss") is not None] for own in joined]
        told = [fmean(values) for values in losses if values]
        lost = sum(str(f.get("client")) == name for line in lines for f in line["faults"])
        rounds = sum(map(bool, joined))
        first, last = (told[0], told[-1]) if told else (None, None)
        rows.append((name, rounds, len(lines), lost, first, last))
    columns = ("site", "rounds with it", "of", "updates lost", "first loss", "last loss")
    return sheet("Taking part in training", columns, rows)
