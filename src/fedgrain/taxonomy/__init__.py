"""From words to a tree: taxonomies, WordNet, similarity, coarsening (method, sections 2 to 4)."""

from fedgrain.taxonomy.classes import (
    DEFAULT_MAX_CHILDREN,
    ClassList,
    class_list,
    dataset_taxonomy,
)
from fedgrain.taxonomy.coarsen import Coarsening, Decision, coarsen
from fedgrain.taxonomy.dag import SettledGraph, from_dag, settle_dag
from fedgrain.taxonomy.formats import (
    from_json,
    from_networkx,
    read_csv,
    read_dag,
    read_json,
    to_json,
    to_networkx,
    write_csv,
    write_json,
)
from fedgrain.taxonomy.tree import Taxonomy
from fedgrain.taxonomy.wordnet import WordNet, full_taxonomy, wordnet

__all__ = [
    "DEFAULT_MAX_CHILDREN",
    "ClassList",
    "Coarsening",
    "Decision",
    "SettledGraph",
    "Taxonomy",
    "WordNet",
    "class_list",
    "coarsen",
    "dataset_taxonomy",
    "from_dag",
    "from_json",
    "from_networkx",
    "full_taxonomy",
    "read_csv",
    "read_dag",
    "read_json",
    "settle_dag",
    "to_json",
    "to_networkx",
    "wordnet",
    "write_csv",
    "write_json",
]
