"""COCO and its kin: COCO Camera Traps, iNaturalist 2021; boxes count as labels of their image.

Categories hang from their ``supercategory``, which may itself be a category, or stand at their
ranks where they name them (iNaturalist). The ``location`` of an image is its site.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
from fedgrain.folders.labels import folded
from fedgrain.importers.bounded import a_list, a_text, an_object, json_of
from fedgrain.importers.contract import Reading, ReadOptions, split_in, split_named
from fedgrain.importers.rank_rows import RankRows

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
_NONE = ("", "none", "null")
Key = int | str


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read annotation files; the split is the image's own, or told by the file's name."""
    reading = Reading()
    contents = [(source, an_object(json_of(source), str(source))) for source in sources]
    ranked = _all_ranked(contents)
    rows, names = RankRows(RANKS), _Names(reading)
    categories: list[dict[Key, int]] = []  # of each source: the row, or the class, of a category
    for source, content in contents:
        found: dict[Key, int] = {}
        for where, category in _records(content, "categories", source):
            key = _key(category, "id", where)
            if key in found:
                raise DataError(f"{where}: the category {key!r} is there twice")
            found[key] = (
                rows.add(_cells(category, where), where) if ranked else names.add(category, where)
            )
        categories.append(found)
    nodes = rows.settle(reading) if ranked else names.settle()
    for (source, content), found in zip(contents, categories, strict=True):
        for where, category in _records(content, "categories", source) if ranked else ():
            node = nodes[found[_key(category, "id", where)]]
            if node is not None:
                reading.classes.synonyms(node, a_text(category, "common_name", where))
        _read_images(source, content, {key: nodes[row] for key, row in found.items()}, reading)
    return reading


def _read_images(
    source: Path, content: dict[str, Any], nodes: dict[Key, int | None], reading: Reading
) -> None:
    """Add the images of one file with the classes of their annotations."""
    told = split_in(source.stem)
    if told:
        reading.note(f"split {told} by the name of {source.name}")
    labels: dict[Key, dict[int, str]] = {}
    for where, annotation in _records(content, "annotations", source):
        image, category = (
            _key(annotation, "image_id", where),
            _key(annotation, "category_id", where),
        )
        if category not in nodes:
            raise DataError(f"{where}: there is no category {category!r}")
        node = nodes[category]
        if node is not None:
            labels.setdefault(image, {}).setdefault(node, where)
    seen: dict[Key, str] = {}
    for where, record in _records(content, "images", source):
        key = _key(record, "id", where)
        if key in seen:
            raise DataError(f"{where}: the image {key!r} is also at {seen[key]}")
        seen[key] = where
        path = a_text(record, "file_name", where, needed=True)
        split = split_named(a_text(record, "split", where), where) or told
        if key not in labels:
            reading.skip("the image has no annotation", where)
        for node in labels.get(key, {}):
            site = a_text(record, "location", where)
            reading.image(path, node, where, source.parent, site=site, split=split)
    for key, of_image in labels.items():
        if key not in seen:
            raise DataError(f"{next(iter(of_image.values()))}: there is no image {key!r}")


def _records(content: dict[str, Any], name: str, source: Path) -> list[tuple[str, dict[str, Any]]]:
    one = {"categories": "category"}.get(name, name.removesuffix("s"))
    return [
        (f"{source}, {one} {number}", an_object(record, f"{source}, {one} {number}"))
        for number, record in enumerate(a_list(content, name, str(source)), start=1)
    ]


def _key(record: dict[str, Any], name: str, where: str) -> Key:
    key = record.get(name)
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise DataError(f"{where}: {name!r} must be a number or a text")
    return key


def _all_ranked(contents: Sequence[tuple[Path, dict[str, Any]]]) -> bool:
    """Whether every category names ranks, as those of iNaturalist 2021 do."""
    categories = [
        category for source, content in contents
        for _, category in _records(content, "categories", source)
    ]  # fmt: skip
    return bool(categories) and all(
        sum(isinstance(category.get(rank), str) for rank in RANKS) > 1 for category in categories
    )


def _cells(category: dict[str, Any], where: str) -> list[str]:
    """Return a cell per rank; the name of a category stands at the lowest."""
    cells = [a_text(category, rank, where) for rank in RANKS[:-1]]
    name = a_text(category, "name", where, needed=True)
    known = {folded(cell) for cell in cells}
    return [*cells, "" if folded(name) in known else name]


class _Names:
    """Categories by name; those of several files with one name are one class."""

    def __init__(self, reading: Reading) -> None:
        self._classes = reading.classes
        self._parents: dict[str, tuple[str, str, str]] = {}  # folded: name, supercategory, place
        self._numbers: list[str] = []  # folded name of each category

    def add(self, category: dict[str, Any], where: str) -> int:
        """Add a category and return its number."""
        name = a_text(category, "name", where, needed=True)
        above = a_text(category, "supercategory", where)
        above = "" if folded(above) in (*_NONE, folded(name)) else above
        _, other, first = self._parents.get(folded(name), ("", above, ""))
        if folded(other) != folded(above):
            raise DataError(
                f"{where}: the supercategory of {name!r} is {above!r}, but {other!r} at {first}"
            )
        self._parents.setdefault(folded(name), (name, above, where))
        self._numbers.append(folded(name))
        return len(self._numbers) - 1

    def settle(self) -> list[int | None]:
        """Return the class of every category."""
        for key, (name, above, where) in list(self._parents.items()):
            if above and folded(above) not in self._parents:
                self._parents[folded(above)] = (above, "", where)
                self._classes.add(folded(above), "", above, where)
            self._classes.add(key, folded(above), name, where)
        return [self._classes.number_of(key) for key in self._numbers]
