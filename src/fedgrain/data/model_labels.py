"""Labels that a model wrote (``fedgrain refine``): known by the annotator they are given."""

from __future__ import annotations

import re
import warnings

import numpy as np
from numpy.typing import NDArray

from fedgrain.images.images import LabelledImages

_MODEL = re.compile(r"\(model, level \d+\)")


def model_annotator(depth: int) -> str:
    """Return who wrote a label of this depth that a model did.

    A model that writes *hawk* was not sure of *kite*, though it writes kites elsewhere; so its
    labels of different depths must not be read as those of one person, who would have said *kite*.
    """
    return f"(model, level {depth})"


def given_by_people(
    data: LabelledImages, images: NDArray[np.int64], whose: str
) -> NDArray[np.bool_]:
    """Mask the images whose label may be held out to validate: not one that a model wrote.

    A model must not vouch for another by its own labels. If fewer than two labels are of people,
    all are taken, with a warning that names ``whose`` images these are.
    """
    everything = np.ones(len(images), np.bool_)
    models = [_MODEL.fullmatch(name) is not None for name in data.annotator_names]
    if data.annotators is None or not any(models):
        return everything
    by_people = ~np.array([*models, False])[data.annotators[images]]  # -1: nobody is named
    if by_people.sum() >= 2 or by_people.all():
        return by_people
    warnings.warn(
        f"{data.name}: nearly all labels of {whose} were written by a model, so some of these are "
        "held out to validate, and the score, temperature and guarantees rest on them; review some "
        "(fedgrain review), or add images that people labelled, with the split validation",
        stacklevel=2,
    )
    return everything
