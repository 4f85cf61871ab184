"""Import a user's data: the contract of a reader, one tree from its classes, names, writing."""

from fedgrain.importers.account import Account
from fedgrain.importers.class_tree import ClassTree
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.importers.importing import ImportOptions, import_data

__all__ = ["Account", "ClassTree", "ImportOptions", "ReadOptions", "Reading", "import_data"]
