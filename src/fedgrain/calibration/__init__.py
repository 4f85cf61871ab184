"""How far an answer can be trusted: temperature, guarantees, restrictions, something else."""

from fedgrain.calibration.guarantee import (
    greedy_path,
    guaranteed_nodes,
    node_scores,
)
from fedgrain.calibration.node_sets import (
    guaranteed_sets,
    set_scores,
)
from fedgrain.calibration.record import Calibration
from fedgrain.calibration.restriction import restricted
from fedgrain.calibration.score_counts import ScoreCounts
from fedgrain.calibration.temperature_sums import fit_temperature

__all__ = [
    "Calibration",
    "ScoreCounts",
    "fit_temperature",
    "greedy_path",
    "guaranteed_nodes",
    "guaranteed_sets",
    "node_scores",
    "restricted",
    "set_scores",
]
