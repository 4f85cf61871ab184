"""What a writer of predictions for another program gets, and what these writers share.

A format is a file beside this one, with a function of the rows and of who predicted them, and a
line in the catalogue (``EXCHANGE_FORMATS``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrain.checked_json import read_checked_json
from fedgrain.errors import DataError
from fedgrain.models.model_folder import description_of
from fedgrain.models.predict_files import PredictedFile
from fedgrain.taxonomy import from_json
from fedgrain.text import encodable
from fedgrain.version import __version__


@dataclass(frozen=True)
class PredictedBy:
    """The model behind the rows."""

    model: str  # its name, for people
    ranks: tuple[str, ...] = ()  # of the depths below the root; empty where they are not known


Writer = Callable[[Iterable[PredictedFile], PredictedBy], Iterator[str]]


def predicted_by(run: str | Path, ranks: str | None, usual: tuple[str, ...] = ()) -> PredictedBy:
    """Name the model of a run; ``ranks`` are those the user gave for the depths of its tree.

    Without, a tree whose leaves are all as deep as the ``usual`` ranks are many has these.
    """
    name = f"fedgrain {__version__}: {Path(run).resolve().name}"
    if ranks is not None:
        given = tuple(rank.strip() for rank in ranks.split(","))
        if not all(given) or len(set(given)) != len(given):
            raise DataError(
                f"the ranks {ranks!r} are not names with commas between them, each once"
            )
        return PredictedBy(name, given)
    known = bool(usual) and _leaf_depths(Path(run)) == {len(usual)}
    return PredictedBy(name, usual if known else ())


def _leaf_depths(run: Path) -> set[int]:
    """Return the depths at which the model's tree has leaves."""
    place = description_of(run)
    tree = from_json(read_checked_json(place).get("taxonomy"), f"{place}, taxonomy")
    return set(tree.depth[tree.leaves].tolist())


def json_list(before: str, entries: Iterable[Any], after: str) -> Iterator[str]:
    """Yield a JSON list, an entry after the other, between two texts."""
    first = True
    yield before + "[\n"
    for entry in entries:
        text = encodable(json.dumps(entry, ensure_ascii=False))
        yield text if first else ",\n" + text
        first = False
    yield f"\n]{after}\n"
