"""Who knows what: label granularity skew (method, section 5)."""

from fedgrain.knowledge.knowledge import Knowledge
from fedgrain.knowledge.naive import hidden_leaves, known_paths_only
from fedgrain.knowledge.projection import Projection, project, project_known
from fedgrain.knowledge.relational import relational_neighbours
from fedgrain.knowledge.statistics import KnowledgeStatistics, knowledge_statistics

__all__ = [
    "Knowledge",
    "KnowledgeStatistics",
    "Projection",
    "hidden_leaves",
    "knowledge_statistics",
    "known_paths_only",
    "project",
    "project_known",
    "relational_neighbours",
]
