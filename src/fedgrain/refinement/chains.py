"""The nodes of each image whose guarantees a calibrated model knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrain.calibration.guarantee import greedy_path, path_probabilities
from fedgrain.models.trained_model import TrainedModel
from fedgrain.refinement.proposals import Chains


def chains_of(
    model: TrainedModel,
    log_probs: NDArray[np.floating[Any]],
    allowed: NDArray[np.bool_] | None = None,
) -> Chains:
    """Return the chain of each image [images, nodes]; without nodes if there is no calibration.

    With ``allowed`` leaves, guarantees are for images of these.
    """
    if model.calibration is None:
        none = np.empty((len(log_probs), 0))
        return Chains(none.astype(np.int64), none)
    path = greedy_path(log_probs, model.taxonomy)
    along = path_probabilities(log_probs, path, model.taxonomy)
    met = model.calibration.nodes.guarantee_of(along, model.taxonomy, allowed)
    guarantees = np.where(path < 0, 0.0, met)
    guarantees[:, 0] = 1.0  # the root holds everything
    return Chains(path, guarantees)
