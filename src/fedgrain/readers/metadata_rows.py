"""Rows that describe an image each: a label, or a cell per rank, and who gave it.

Shared by the readers of Hugging Face's formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.importers.columns import find_columns, plain, rank_columns
from fedgrain.importers.contract import Reading, ReadOptions, split_named
from fedgrain.importers.rank_rows import RankRows
from fedgrain.readers.path_lines import separator_of, steps

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
_WANTED = ("label", "site", "annotator", "split")


@dataclass(frozen=True)
class DescribedImage:
    """An image and what its row says, by column."""

    path: str
    fields: Mapping[str, str]
    where: str
    base: Path
    split: str = ""
    save: Callable[[Path], None] | None = None


def add_described(
    images: Sequence[DescribedImage], names: Sequence[str], options: ReadOptions, where: str
) -> Reading:
    """Return a reading of images whose rows have columns of these names."""
    reading = Reading()
    ranks = _ranks(names, options, where)
    columns = find_columns(
        [name for name in names if name not in ranks], _WANTED, options.columns, where
    )
    if not ranks and "label" not in columns:
        raise DataError(
            f"{where}: no column of labels among {', '.join(names) or 'none'}; name it with "
            "--column label=NAME"
        )
    nodes = _by_ranks(images, ranks, reading) if ranks else _by_label(images, columns, reading)
    for image, node in zip(images, nodes, strict=True):
        if node is None:
            reading.skip("it has no label", image.where)
            continue
        said = {what: image.fields.get(column, "") for what, column in columns.items()}
        reading.image(
            image.path, node, image.where, image.base,
            site=said.get("site", ""), annotator=said.get("annotator", ""),
            split=split_named(said.get("split", ""), image.where) or image.split, save=image.save,
        )  # fmt: skip
    return reading


def _ranks(names: Sequence[str], options: ReadOptions, where: str) -> list[str]:
    if options.ranks:
        return rank_columns(names, options.ranks, where)
    if "label" in options.columns:
        return []
    known = {plain(name): name for name in names}
    found = [known[rank] for rank in RANKS if rank in known]
    return found if len(found) > 1 else []


def _by_ranks(
    images: Sequence[DescribedImage], ranks: Sequence[str], reading: Reading
) -> list[int | None]:
    rows = RankRows([plain(rank) for rank in ranks])
    for image in images:
        rows.add([image.fields.get(rank, "") for rank in ranks], image.where)
    return rows.settle(reading)


def _by_label(
    images: Sequence[DescribedImage], columns: Mapping[str, str], reading: Reading
) -> list[int | None]:
    labels = [image.fields.get(columns["label"], "").strip() for image in images]
    separator = separator_of(labels)
    return [
        reading.classes.path(steps(label, separator, image.where), image.where) if label else None
        for label, image in zip(labels, images, strict=True)
    ]
