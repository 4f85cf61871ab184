"""From probabilities of nodes to a prediction, and from predictions to scores."""

from fedgrain.scoring.breakdown import (
    ClassScores,
    NodeScores,
    per_class,
    per_node,
)
from fedgrain.scoring.comparison import (
    MicroScores,
    edge_distance,
    information_scores,
    lca_depth,
    micro_scores,
)
from fedgrain.scoring.metrics import (
    Scores,
    comparable,
    cut_back,
    hierarchical_scores,
)
from fedgrain.scoring.operating_curve import (
    OperatingCurve,
    operating_curve,
)
from fedgrain.scoring.rules import (
    node_log_probs,
    predict,
)
from fedgrain.scoring.summary import (
    Summary,
    score,
    summarise,
)
from fedgrain.scoring.validation_score import ValidationScore

__all__ = [
    "ClassScores",
    "MicroScores",
    "NodeScores",
    "OperatingCurve",
    "Scores",
    "Summary",
    "ValidationScore",
    "comparable",
    "cut_back",
    "edge_distance",
    "hierarchical_scores",
    "information_scores",
    "lca_depth",
    "micro_scores",
    "node_log_probs",
    "operating_curve",
    "per_class",
    "per_node",
    "predict",
    "score",
    "summarise",
]
