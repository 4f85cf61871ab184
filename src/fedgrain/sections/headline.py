"""The result of a run in one sentence for readers who know nothing of federated learning."""

from __future__ import annotations

import numpy as np

from fedgrain.sections.answers import Answers

_OUT_OF = 100  # with fewer images the sentence has their own number


def plain_headline(tested: Answers) -> str:
    """Say how many images get the right class, and how many more at least the right group."""
    full, in_full = tested.full_taxonomy, tested.in_full
    truth, found = tested.truth[in_full], tested.found[in_full]
    coarse = ~in_full
    agreed = int((tested.truth == tested.found)[coarse].sum())
    unseen = "it has not seen" if tested.split == "test" else "it was not trained on"
    if not in_full.any():
        return (
            f"No image was labelled in full, so it is not known how often it names the right "
            f"class. It agrees with the coarser labels of {agreed} of {len(tested):,} "
            f"{tested.split} images {unseen}."
        )
    exact = truth == found
    parents = full.parents[truth]
    near = ~exact & np.asarray(full.is_ancestor(parents, found)) & (parents != 0)
    total = len(truth)
    scale = _OUT_OF if total >= _OUT_OF else total
    right, more = (round(scale * float(hits.mean())) for hits in (exact, near))
    text = f"Of {scale} images {unseen}, it names the right class of {right}"
    if near.any():
        one = int(np.flatnonzero(near)[0])
        names = full.names[truth[one]], full.names[found[one]]
        group = full.names[parents[one]]
        text += (
            f" and of {more} more the right group (such as {names[0]} taken for {names[1]}: both "
            f"are {group})"
        )
    text += f". Measured on the {total:,} {tested.split} images that are labelled in full"
    if coarse.any():
        text += (
            f"; of {int(coarse.sum()):,} with a coarser label, it agrees with the label of "
            f"{agreed:,}"
        )
    if tested.split == "validation":
        text += "; the same images decided when training stopped, so new ones may do a little worse"
    return text + "."
