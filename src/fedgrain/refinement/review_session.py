"""A review: the images to look at, the most useful first, and what answers make of a manifest.

Nothing here knows of the network; all methods are called by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
from fedgrain.folders.image_paths import find_images
from fedgrain.folders.labels import Labels, unaccented
from fedgrain.refinement.label_origins import (
    GIVEN,
    MODEL,
    REVIEW,
    Row,
    read_origins,
    refuse_same,
    write_origins,
)
from fedgrain.refinement.review_answers import ACCEPT, PICK, UNSURE, Answer, AnswerLog
from fedgrain.taxonomy.tree import Taxonomy

_IN_GROUP, _IN_BATCH = 12, 24  # images shown at once
_MATCHES = 8  # names that are offered


@dataclass(frozen=True)
class Reviewing:
    """What is reviewed, by whom, and where the answers go."""

    manifest: Path
    out: Path
    annotator: str
    taken: bool = False  # also what the model's labels were taken for
    allow_links: bool = False

    @property
    def log(self) -> Path:
        """The file of answers."""
        return self.out.with_name(f"{self.out.name}.answers.jsonl")


class ReviewSession:
    """The state of a review; it is what the manifest and the log of answers say."""

    def __init__(self, asked: Reviewing, tree: Taxonomy) -> None:
        refuse_same(asked.manifest, asked.out)
        if not asked.annotator.strip() or asked.annotator.startswith("("):
            raise DataError("--annotator is your name as it will stand in the manifest; give one")
        self.asked, self.tree = asked, tree
        self._labels = Labels(tree)
        self._words = [  # by which each node is found
            [unaccented(word) for word in (name, node, *tree.synonyms.get(node, ()))]
            for node, name in zip(tree.ids, tree.names, strict=True)
        ]
        origins = read_origins(asked.manifest, tree)
        self.rows, self._nodes = origins.rows, origins.checked.labels
        self.files = find_images([asked.manifest], allow_links=asked.allow_links)
        self.log = AnswerLog(asked.log)
        self._row_of = {row["path"]: number for number, row in enumerate(self.rows)}
        self._items = [n for n in range(len(self.rows)) if self._is_item(n, origins.checked.splits)]
        self._items.sort(key=lambda number: -_number(self.rows[number]["gain"]))
        self._reviewed = frozenset(self._items)
        self._groups: dict[tuple[str, str], list[int]] = {}
        for number in self._items:
            row = self.rows[number]
            self._groups.setdefault((row["given_label"], row["proposal"]), []).append(number)
        if not self._items:
            raise DataError(
                f"{asked.manifest}: no image has a coarse label or a proposal to look at; make "
                "proposals with fedgrain refine, or look at labels that were taken with --taken"
            )

    def _is_item(self, number: int, splits: tuple[str, ...]) -> bool:
        row = self.rows[number]
        if row["source"] == MODEL:
            return self.asked.taken
        coarse = not bool(self.tree.is_leaf(int(self._nodes[number])))
        return row["source"] == GIVEN and coarse and splits[number] == "train"

    # -- what is shown ----------------------------------------------------------------------------

    def batch(self) -> list[dict[str, Any]]:
        """Return the next groups of images without an answer, the most useful group first."""
        shown: list[dict[str, Any]] = []
        count = 0
        for (given, proposal), members in self._groups.items():
            left = [n for n in members if self.rows[n]["path"] not in self.log.latest]
            if left and count < _IN_BATCH:
                items = [self.item(number) for number in left[: min(_IN_GROUP, _IN_BATCH - count)]]
                count += len(items)
                shown.append({"given": given, "proposal": proposal, "left": len(left),
                              "items": items})  # fmt: skip
        return shown

    def item(self, number: int) -> dict[str, Any]:
        """Return what the page shows of one image."""
        row = self.rows[number]
        found = self.log.latest.get(row["path"])
        return {
            "row": number,
            "path": row["path"],
            "given": row["given_label"],
            "proposal": row["proposal"],
            "probability": row["probability"],
            "guarantee": row["guarantee"],
            "answer": None if found is None else found.answer,
            "label": "" if found is None else found.label,
        }

    def numbers(self) -> dict[str, Any]:
        """Return how much is done, and what it has bought."""
        own = {self.rows[number]["path"] for number in self._items}
        found = [answer for path, answer in self.log.latest.items() if path in own]
        said = [answer for answer in found if answer.answer != UNSURE]
        right = [a for a in said if a.label == self.rows[self._row_of[a.path]]["proposal"]]
        asked = [a for a in said if self.rows[self._row_of[a.path]]["proposal"]]
        return {
            "images": len(self._items),
            "done": len(found),
            "unsure": len(found) - len(said),
            "finer": sum(self._is_finer(answer) for answer in said),
            "corrected": sum(self._is_other(answer) for answer in said),
            "leaves": sum(bool(self.tree.is_leaf(self._node(a.label))) for a in said),
            "agreed": len(right),
            "asked": len(asked),
            "undoable": bool(self.log.answers),
        }

    def matches(self, text: str, number: int) -> list[dict[str, Any]]:
        """Return the nodes whose names fit a text: that begin with it, below the label first."""
        wanted = unaccented(text)
        given = self._node(self.rows[number]["given_label"])
        found = []
        for node, words in enumerate(self._words):
            places = [place for word in words if (place := word.find(wanted)) >= 0]
            if places:
                below = bool(self.tree.is_ancestor(given, node))
                found.append((min(places) > 0, not below, min(places), words[0], node, below))
        found.sort()
        return [
            {
                "label": self._labels.spelled(node),
                "name": self.tree.names[node],
                "above": self._above(self._labels.spelled(node)),
                "below": below,
            }
            for *_, node, below in found[:_MATCHES]
        ]

    # -- answers ----------------------------------------------------------------------------------

    def answer(self, number: int, answer: str, label: str = "") -> dict[str, Any]:
        """Write an answer to one image, and return what the page shows of it now."""
        if number not in self._reviewed:
            raise DataError(f"there is no image number {number} in this review")
        row = self.rows[number]
        if answer == ACCEPT:
            label = row["proposal"]
        elif answer not in (PICK, UNSURE):
            raise DataError(f"there is no answer {answer!r}")
        if answer == UNSURE:
            label = ""
        elif len(self._labels.find(label).nodes) != 1:
            raise DataError(f"there is no node {label!r} in the taxonomy")
        else:
            label = self._labels.spelled(self._node(label))
        self.log.add(Answer(row["path"], answer, label, self.asked.annotator))
        return self.item(number)

    def undo(self) -> dict[str, Any] | None:
        """Take back the last answer; return what the page shows of its image."""
        last = self.log.undo(self.asked.annotator)
        if last is None or last.path not in self._row_of:
            return None
        return self.item(self._row_of[last.path])

    def write(self, rows: Iterable[Row] | None = None) -> None:
        """Write the manifest with all answers, or with these rows."""
        answered = self.answered_rows() if rows is None else rows
        write_origins(self.asked.out, answered, self.asked.manifest.parent)

    def answered_rows(self) -> Iterator[Row]:
        """Yield every row; a label that somebody gave carries their name."""
        for row in self.rows:
            found = self.log.latest.get(row["path"])
            if found is None or found.answer == UNSURE or not self._labels.find(found.label).nodes:
                yield row
                continue
            yield {**row, "label": found.label, "annotator": found.annotator, "source": REVIEW}

    # -- the tree ---------------------------------------------------------------------------------

    def _node(self, label: str) -> int:
        nodes = self._labels.find(label).nodes
        return nodes[0] if nodes else 0

    def _above(self, label: str) -> str:
        """Return the way down to a node, without the root and itself."""
        path = self.tree.path(self._node(label)).tolist() if label else []
        return " › ".join(self.tree.names[node] for node in path[1:-1])

    def _is_finer(self, answer: Answer) -> bool:
        given, node = self._before_and_after(answer)
        return node != given and bool(self.tree.is_ancestor(given, node))

    def _is_other(self, answer: Answer) -> bool:
        """Return whether an answer contradicts the given label."""
        given, node = self._before_and_after(answer)
        return not (self.tree.is_ancestor(given, node) or self.tree.is_ancestor(node, given))

    def _before_and_after(self, answer: Answer) -> tuple[int, int]:
        given = self.rows[self._row_of[answer.path]]["given_label"]
        return self._node(given), self._node(answer.label)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
