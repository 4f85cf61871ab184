"""What a data manager asks of a folder of images: who has what, what is broken, what is twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedgrain.folders.file_facts import FileFacts, facts_of
from fedgrain.folders.folder import ListedImages
from fedgrain.folders.near_duplicates import groups_of, near_duplicates
from fedgrain.taxonomy.tree import Taxonomy

NO_SITE = "(no site)"
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class LabelCount:
    """A label that is used, and how many images each site gave it."""

    id: str
    name: str
    depth: int
    by_site: dict[str, int]

    @property
    def images(self) -> int:
        """Images with this label."""
        return sum(self.by_site.values())


@dataclass(frozen=True)
class Copies:
    """Images that show the same picture: their numbers among the rows."""

    rows: tuple[int, ...]
    same_bytes: bool  # the files are equal; otherwise the pictures are nearly the same
    leaked: tuple[int, ...]  # rows to validate or test on whose picture is also trained on
    several_sites: bool
    contradictory: bool  # two of the labels cannot both be right


@dataclass(frozen=True)
class FolderReport:
    """Counts, files and copies of a folder of images."""

    paths: tuple[Path, ...]
    splits: tuple[str, ...]  # [rows]
    sites: tuple[str, ...]  # [rows]
    images: dict[str, dict[str, int]]  # by site and split
    labels: tuple[LabelCount, ...]  # the most frequent first
    depths: dict[int, dict[str, int]]  # by depth of the label and site
    unused_leaves: int
    sizes: dict[tuple[int, int], int]  # width and height, the most frequent first
    kinds: dict[str, int]
    turned: int  # files that EXIF turns upright
    copies: tuple[Copies, ...]


def report_folder(listed: ListedImages) -> FolderReport:
    """Look at every row and every file of a folder."""
    rows, tree = listed.rows, listed.taxonomy
    count = len(rows.paths)
    sites = tuple(site or NO_SITE for site in rows.clients or [NO_SITE] * count)
    facts = facts_of(rows.paths)
    read = [fact for fact in facts if fact.kind]
    of_site: dict[str, list[str]] = {}
    of_depth: dict[int, list[str]] = {}
    depths = tree.depth[rows.labels].tolist()
    for site, split, depth in zip(sites, rows.splits, depths, strict=True):
        of_site.setdefault(site, []).append(split)
        of_depth.setdefault(depth, []).append(site)
    used = set(rows.labels.tolist())
    return FolderReport(
        paths=rows.paths,
        splits=rows.splits,
        sites=sites,
        images={site: _counted(of_site[site]) for site in sorted(of_site)},
        labels=_label_counts(tree, rows.labels.tolist(), sites),
        depths={depth: _counted(of_depth[depth]) for depth in sorted(of_depth)},
        unused_leaves=sum(leaf not in used for leaf in tree.leaves.tolist()),
        sizes=_counted((fact.width, fact.height) for fact in read),
        kinds=_counted(fact.kind for fact in read),
        turned=sum(fact.turned for fact in read),
        copies=_copies(listed, facts, sites),
    )


def _counted(values: Iterable[_Value]) -> dict[_Value, int]:
    return dict(Counter(values).most_common())


def _label_counts(
    tree: Taxonomy, labels: list[int], sites: Sequence[str]
) -> tuple[LabelCount, ...]:
    by_label: dict[int, Counter[str]] = {}
    for label, site in zip(labels, sites, strict=True):
        by_label.setdefault(label, Counter())[site] += 1
    counts = [
        LabelCount(tree.ids[node], tree.names[node], int(tree.depth[node]), dict(by_label[node]))
        for node in sorted(by_label)
    ]
    return tuple(sorted(counts, key=lambda count: -count.images))


def _copies(
    listed: ListedImages, facts: Sequence[FileFacts], sites: Sequence[str]
) -> tuple[Copies, ...]:
    """Return groups of equal files, then groups of pictures that are nearly the same."""
    by_digest: dict[bytes, list[int]] = {}
    for row, fact in enumerate(facts):
        if fact.digest:
            by_digest.setdefault(fact.digest, []).append(row)
    equal = [rows for rows in by_digest.values() if len(rows) > 1]
    kept = np.asarray(listed.stored.labels, np.int64)
    near = groups_of(near_duplicates(listed.stored.images), len(kept))
    similar = [kept[np.array(group)].tolist() for group in near]
    similar = [rows for rows in similar if len({facts[row].digest for row in rows}) > 1]
    return tuple(
        _described(listed, rows, sites, same)
        for groups, same in ((equal, True), (similar, False))
        for rows in groups
    )


def _described(listed: ListedImages, rows: list[int], sites: Sequence[str], same: bool) -> Copies:
    splits, tree = listed.rows.splits, listed.taxonomy
    trained = any(splits[row] == "train" for row in rows)
    labels = listed.rows.labels[rows].tolist()
    deepest = max(labels, key=lambda node: int(tree.depth[node]))
    return Copies(
        tuple(rows),
        same,
        tuple(row for row in rows if trained and splits[row] != "train"),
        len({sites[row] for row in rows}) > 1,
        not all(tree.is_ancestor(label, deepest) for label in labels),
    )
