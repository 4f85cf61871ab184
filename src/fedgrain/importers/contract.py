"""What a reader of a format gives back: classes, labelled images, and an account of its work.

A reader is called with the sources (paths) and :class:`ReadOptions`, and returns a
:class:`Reading`. It need not look at any image: whether the files are there, and which node of the
final tree a label means, is settled for all formats in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.folders.labels import folded
from fedgrain.folders.manifest import SPLIT_NAMES, SPLITS
from fedgrain.importers.class_tree import LONGEST, ClassTree

_SPLITS = {
    **SPLIT_NAMES, "training": "train", "valid": "validation", "dev": "validation",
    "eval": "validation", "testing": "test",
}  # fmt: skip
_EXAMPLES = 3  # places that are named for one reason


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a source."""

    images: Path | None = None  # the folder that paths of images start at; else the source's own
    columns: Mapping[str, str] = field(default_factory=dict)  # e.g. {"site": "park"}
    ranks: tuple[str, ...] = ()  # columns of a table, from the top down


@dataclass(frozen=True)
class ReadImage:
    """A labelled image. Its label is the number of a class, or a word that may mean one."""

    path: str  # as the source has it
    base: Path  # the folder it starts at, unless the user names another
    label: int | str
    where: str
    site: str = ""
    annotator: str = ""
    split: str = ""
    save: Callable[[Path], None] | None = None  # writes an image that is inside the source
    others: tuple[str, ...] = ()  # where else it may lie


@dataclass
class Skipped:
    """Records that were left out for one reason, and where the first of them are."""

    count: int = 0
    where: list[str] = field(default_factory=list)


class Reading:
    """What a reader has found so far."""

    def __init__(self) -> None:
        self.classes = ClassTree()
        self.images: list[ReadImage] = []
        self.skipped: dict[str, Skipped] = {}
        self.notes: dict[str, None] = {}
        self.above = False  # labels may stand above all classes: the tree then gets a root there

    def image(
        self,
        path: str,
        label: int | str,
        where: str,
        base: Path,
        *,
        site: str = "",
        annotator: str = "",
        split: str = "",
        save: Callable[[Path], None] | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        """Add an image; the label is what ``classes`` returned, or a word."""
        who = _name(site, "site", where), _name(annotator, "annotator", where)
        self.images.append(ReadImage(path, base, label, where, *who, split, save, others))

    def skip(self, reason: str, where: str, count: int = 1) -> None:
        """Leave a record out, and say why."""
        skipped = self.skipped.setdefault(reason, Skipped())
        skipped.count += count
        if len(skipped.where) < _EXAMPLES:
            skipped.where.append(where)

    def note(self, text: str) -> None:
        """Say how something was read."""
        self.notes[text] = None


Reader = Callable[[Sequence[Path], ReadOptions], Reading]


def _name(text: str, what: str, where: str) -> str:
    if len(text) > LONGEST:
        raise DataError(
            f"{where}: the {what} has {len(text):,} signs, and {LONGEST:,} are the most"
        )
    return " ".join(text.split())


def split_named(word: str, where: str) -> str:
    """Return the split that a word means; empty if there is no word."""
    known = _SPLITS.get(folded(word)) if word.strip() else ""
    if known is None:
        raise DataError(f"{where}: there is no split {word!r}; write one of {', '.join(SPLITS)}")
    return known


def split_in(name: str) -> str:
    """Return the split that a file's or folder's name tells, such as ``instances_val2017``.

    >>> split_in("instances_val2017"), split_in("train_mini"), split_in("interval")
    ('validation', 'train', '')
    """
    plain = "".join(sign if sign.isalpha() else " " for sign in name.casefold())
    found = [_SPLITS[word] for word in plain.split() if word in _SPLITS]
    return found[0] if found else ""
