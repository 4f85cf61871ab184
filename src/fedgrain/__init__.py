"""Federated image classification where every site labels at its own level of detail."""

__version__ = "0.1.0"
