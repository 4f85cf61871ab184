"""Which column of a table holds what: by the user's word, or by names that are usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedgrain.errors import DataError
from fedgrain.folders.labels import folded

# the usual names of what a row says, without case, spaces, underscores and hyphens
USUAL: dict[str, tuple[str, ...]] = {
    "image": ("path", "image", "file", "filename", "filepath", "imagepath", "imagefile", "photo",
              "picture"),
    "label": ("label", "class", "category", "taxon", "species", "scientificname", "name"),
    "site": ("client", "site", "institutioncode", "institution", "location", "station"),
    "annotator": ("annotator", "identifiedby", "labeller", "labeler", "annotatedby",
                  "classifiedby"),
    "split": ("split", "subset"),
    "synonyms": ("synonyms", "synonym", "commonname", "vernacularname"),
}  # fmt: skip


def plain(name: str) -> str:
    """Return the name of a column without case, spaces, underscores and hyphens."""
    return "".join(folded(name).replace("_", " ").replace("-", " ").split())


def find_columns(
    header: Sequence[str], wanted: Sequence[str], chosen: Mapping[str, str], where: str
) -> dict[str, str]:
    """Return the column of each thing that is wanted and there: chosen by the user, or usual."""
    if unknown := [what for what in chosen if what not in USUAL]:
        raise DataError(
            f"--column {unknown[0]}={chosen[unknown[0]]}: there is no {unknown[0]!r}; choose from "
            f"{', '.join(USUAL)}"
        )
    found: dict[str, str] = {}
    for what in wanted:
        if what in chosen:
            found[what] = _named(header, chosen[what], where)
            continue
        for usual in USUAL[what]:
            alike = [name for name in header if plain(name) == usual]
            if alike and alike[0] not in chosen.values():
                found[what] = alike[0]
                break
    for name in found.values():
        if list(header).count(name) > 1:
            raise DataError(f"{where}: the header has the column {name!r} twice; rename one")
    return found


def _named(header: Sequence[str], name: str, where: str) -> str:
    """Return a column that the user names, regardless of case and spaces."""
    for column in header:
        if column == name or plain(column) == plain(name):
            return column
    raise DataError(f"{where}: there is no column {name!r}; there are {', '.join(header)}")


def rank_columns(header: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """Return the columns of the ranks that the user names, from the top down."""
    found = [_named(header, name, where) for name in names]
    if len(set(found)) < len(found):
        raise DataError(f"{where}: --ranks names a column twice: {', '.join(names)}")
    return found
