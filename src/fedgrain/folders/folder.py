"""The user's own images: a manifest and a taxonomy CSV, or class folders."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgrain.errors import DataError
from fedgrain.folders.links import Links
from fedgrain.folders.manifest import (
    SPLIT_NAMES,
    SPLITS,
    LabelReader,
    Rows,
    read_manifest,
    tell_forgiven,
)
from fedgrain.folders.mistakes import Mistakes
from fedgrain.images.cache import Stored
from fedgrain.images.decode import MAX_UNREADABLE, Decoding, Listing, kind_of, load_or_decode
from fedgrain.images.images import LabelledImages
from fedgrain.taxonomy.formats import read_csv
from fedgrain.taxonomy.tree import Taxonomy

MANIFEST, TREE = "images.csv", "taxonomy.csv"
_START = "; paths start at the manifest's folder"
_ABOUT_LINKS = (
    "; put the image itself there, or follow such links with --allow-links (in Python: "
    "allow_links=True)"
)
ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")


def load_folder(
    root: str | Path | None = None,
    *,
    manifest: str | Path | None = None,
    taxonomy: Taxonomy | str | Path | None = None,
    size: int = 64,
    max_unreadable: float = MAX_UNREADABLE,
    allow_links: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
    interpolation: str = "bilinear",
) -> LabelledImages:
    """Load the images of a folder with labels at any depth of the user's tree.

    ``manifest`` is ``images.csv`` in the folder unless given; without one, class folders are read:
    ``<label>/...`` or ``<split>/<label>/...``. ``taxonomy`` is ``taxonomy.csv`` in the folder
    unless given. The tree stays as it is: to coarsen it, pass the coarse tree to
    ``LabelledImages.in_taxonomy``. Images become squares of ``size``; up to a share of
    ``max_unreadable`` of them may be unreadable and are skipped with a warning. A link that leads
    out of the folder is refused unless ``allow_links`` is set.
    """
    decoding = Decoding(size, max_unreadable, workers, progress, interpolation)
    return load_listed(root, manifest, taxonomy, decoding, allow_links=allow_links).labelled()


@dataclass(frozen=True)
class ListedImages:
    """The images of a folder with the rows that list them."""

    name: str
    rows: Rows
    stored: Stored  # its labels are the numbers of the rows that could be read
    taxonomy: Taxonomy

    def labelled(self) -> LabelledImages:
        """Return the images that could be read, as a data set."""
        rows, stored = self.rows, self.stored
        kept = stored.labels  # the cache has pixels and row numbers: labels may have changed since
        splits, split_names = _numbered([rows.splits[row] for row in kept], SPLITS)
        clients, client_names = _numbered_or_none(rows.clients, kept)
        annotators, annotator_names = _numbered_or_none(rows.annotators, kept)
        return LabelledImages(
            name=self.name,
            images=stored.images,
            labels=rows.labels[kept],
            taxonomy=self.taxonomy,
            splits=splits.astype(np.int8),
            split_names=split_names,
            clients=clients,
            client_names=client_names,
            annotators=annotators,
            annotator_names=annotator_names,
            unreadable=stored.unreadable,
        )


def load_listed(
    root: str | Path | None,
    manifest: str | Path | None,
    taxonomy: Taxonomy | str | Path | None,
    decoding: Decoding,
    *,
    allow_links: bool = False,
) -> ListedImages:
    """Read the rows of a folder, as :func:`load_folder` does, and decode their images."""
    folder = folder_named(root, manifest)
    tree = taxonomy if isinstance(taxonomy, Taxonomy) else read_tree(folder, taxonomy)
    rows, identity = _listed(folder, manifest, tree, allow_links)
    numbers = np.arange(len(rows.paths), dtype=np.int32)
    listing = Listing([str(path) for path in rows.paths], numbers, np.zeros(len(numbers), np.int8))
    key = {"dataset": "folder", "source": identity, "decoding": 2}  # 2: also fractions
    stored = load_or_decode(key, lambda: listing, decoding)
    return ListedImages(folder.resolve().name, rows, stored, tree)


def folder_named(root: str | Path | None, manifest: str | Path | None) -> Path:
    """Return the folder of the images: the given one, or that of the manifest."""
    if root is None and manifest is None:
        raise DataError(
            "a folder of images needs a path: give root (--data-root DIR, or --root DIR in "
            "fedgrain data)"
        )
    folder = Path(root) if root is not None else Path(str(manifest)).parent
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    return folder


def _listed(
    folder: Path, manifest: str | Path | None, tree: Taxonomy, allow_links: bool
) -> tuple[Rows, str]:
    """Return the rows of the manifest, or of class folders, and a digest of their files."""
    rows, mistakes, inside = read_rows(folder, manifest, tree)
    identity = _identity(rows, None if allow_links else inside, mistakes)
    mistakes.refuse()
    tell_forgiven(mistakes)
    return rows, identity


def read_rows(
    folder: Path, manifest: str | Path | None, tree: Taxonomy
) -> tuple[Rows, Mistakes, Path]:
    """Return the rows, the mistakes found in them, and the folder that images must lie in."""
    listed = Path(manifest) if manifest is not None else folder / MANIFEST
    if listed.is_dir():
        raise DataError(f"{listed}: a folder, but the list of images should be here; rename it")
    by_manifest = manifest is not None or listed.is_file()
    mistakes = Mistakes(listed if by_manifest else folder)
    read = read_manifest if by_manifest else _read_class_folders
    rows = read(listed if by_manifest else folder, tree, mistakes)
    return rows, mistakes, listed.parent if by_manifest else folder


def _read_class_folders(folder: Path, taxonomy: Taxonomy, mistakes: Mistakes) -> Rows:
    """List the images of class folders; a folder's name is the id or unique name of a node."""
    labels = LabelReader(taxonomy, mistakes)
    tops = _folders_in(folder)
    by_split = bool(tops) and all(top.name in SPLIT_NAMES for top in tops)
    paths: list[Path] = []
    nodes: list[int] = []
    splits: list[str] = []
    for parent in tops if by_split else [folder]:
        split = SPLIT_NAMES[parent.name] if by_split else "train"
        for class_folder in _folders_in(parent):
            node = labels.node(class_folder.name, str(class_folder)) or 0
            found = sorted(
                path for path in class_folder.rglob("*") if path.suffix.lower() in ENDINGS
            )
            paths += found
            nodes += [node] * len(found)
            splits += [split] * len(found)
    if not paths and not mistakes.groups:
        raise DataError(
            f"{folder}: found neither {MANIFEST} nor class folders with images; see docs/data.md"
        )
    where = tuple(str(path.parent) for path in paths)
    return Rows(tuple(paths), where, np.array(nodes, np.int32), tuple(splits))


def _folders_in(folder: Path) -> list[Path]:
    inside = sorted(folder.iterdir())
    return [path for path in inside if path.is_dir() and not path.name.startswith(".")]


def read_tree(folder: Path, path: str | Path | None) -> Taxonomy:
    """Read the tree of a folder, from its taxonomy.csv unless another file is given."""
    chosen = folder / TREE if path is None else Path(path)
    if not chosen.is_file():
        raise DataError(
            f"{chosen}: there is no such taxonomy; write your tree there, a CSV file with the "
            "header parent,child[,name]"
        )
    return read_csv(chosen)


def _identity(rows: Rows, root: Path | None, mistakes: Mistakes) -> str:
    """Return a digest of path, size and time of every image; a missing one is a mistake.

    So is anything but a plain file, and a link that leads out of ``root``, if given.
    """
    digest = hashlib.sha256()
    links = Links(root)
    for number, path in enumerate(rows.paths):
        try:
            state = os.lstat(path)
            is_link = stat.S_ISLNK(state.st_mode)
            leads_out = links.lead_out(path, is_link)
            if is_link and not leads_out:
                state = os.stat(path)  # noqa: PTH116 - half the time of Path.stat on many files
        except (OSError, ValueError):  # a path with a NUL byte does not exist
            text, advice = (
                f"the image {str(path)!r} is not there",
                "; paths start at the manifest's folder",
            )
            mistakes.add(
                rows.where[number], ("missing", ""), text, advice, "nor are {others} more images"
            )
            continue
        if leads_out:
            text = f"{str(path)!r} leads out of the folder by a link, to {os.path.realpath(path)!r}"
            mistakes.add(rows.where[number], ("link", ""), text, _ABOUT_LINKS, "{others} more do")
        elif not stat.S_ISREG(state.st_mode):
            text = f"{str(path)!r} is {kind_of(state.st_mode)}, not an image"
            mistakes.add(
                rows.where[number],
                ("kind", ""),
                text,
                "; remove it",
                "{others} more are not images",
            )
        digest.update(f"{path.absolute()}|{state.st_size}|{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _numbered(
    values: Sequence[str], order: Sequence[str] | None = None
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Assign numbers to the values, in order or sorted; an empty one becomes -1."""
    present = set(values)  # used only for membership tests
    names = tuple(n for n in (order or sorted(present)) if n in present and n)
    number_of = {name: number for number, name in enumerate(names)}
    return np.array([number_of.get(value, -1) for value in values], np.int32), names


def _numbered_or_none(
    values: Sequence[str] | None, kept: NDArray[np.int32]
) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    return (None, ()) if values is None else _numbered([values[row] for row in kept])
