"""Open a review: one at a time for a file of answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgrain.checked_json import read_checked_json
from fedgrain.errors import DataError, RunError
from fedgrain.folders.folder import read_tree
from fedgrain.refinement.review_server import ReviewServer
from fedgrain.refinement.review_session import Reviewing, ReviewSession
from fedgrain.runs.lock import exclusive
from fedgrain.taxonomy import Taxonomy, from_json


@contextmanager
def review_server(
    asked: Reviewing, taxonomy: Path | None = None, port: int = 0
) -> Iterator[ReviewServer]:
    """Yield a server that is ready to serve; at the end the manifest is written."""
    if not asked.manifest.is_file():
        raise DataError(f"{asked.manifest}: there is no such manifest; name one to look through")
    tree = _tree(asked.manifest.parent, taxonomy)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(asked.log), ReviewServer(ReviewSession(asked, tree), port) as server:
        yield server


def _tree(folder: Path, given: Path | None) -> Taxonomy:
    """Return the tree of a CSV file, or of the model in a run's folder."""
    if given is None or not given.is_dir():
        return read_tree(folder, given)
    from fedgrain.models.trained_model import DESCRIPTION  # imports torch, which takes seconds

    place = given / DESCRIPTION
    if not place.exists():
        raise RunError(f"{given}: no finished run here (there is no {place.name})")
    return from_json(read_checked_json(place)["full_taxonomy"], f"{place}, full taxonomy")
