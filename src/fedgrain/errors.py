"""Errors that tell a user what is wrong, where, and what to do."""

__all__ = [
    "BenchmarkError",
    "CodeError",
    "ConfigError",
    "DataError",
    "DeploymentError",
    "DivergedError",
    "FederationError",
    "FedgrainError",
    "HeadError",
    "KnowledgeError",
    "NetError",
    "PredictionError",
    "ReportError",
    "RunError",
    "StudyError",
    "TaxonomyError",
]


class FedgrainError(ValueError):
    """A mistake in the input: the command line prints it without a traceback and exits with 2."""


class TaxonomyError(FedgrainError):
    """The taxonomy, its file or the list of classes is not usable."""


class KnowledgeError(FedgrainError):
    """Knowledge, its file or its settings are not usable."""


class DataError(FedgrainError):
    """Images, labels, a manifest or an archive are missing or not usable."""


class HeadError(FedgrainError):
    """A head or its supervision does not exist, or the two do not fit together."""


class NetError(FedgrainError):
    """A net does not exist, or does not fit the images or the head."""


class PredictionError(FedgrainError):
    """A prediction rule, or the nodes to be scored, cannot be used."""


class FederationError(FedgrainError):
    """The clients, their data or their updates cannot be trained on."""


class DivergedError(FederationError):
    """Training diverged to numbers that are not finite: the learning rate was too high."""


class CodeError(FederationError):
    """Every client failed with the same exception: the code is at fault, not a client."""


class ConfigError(FedgrainError):
    """A setting of an experiment does not exist or has no meaning."""


class RunError(FedgrainError):
    """A run folder is missing, damaged, in use or belongs to another config."""


class BenchmarkError(FedgrainError):
    """A result or a file that is not the benchmark protocol's."""


class StudyError(FedgrainError):
    """A study, a method in it or its folder is missing, damaged or belongs to another study."""


class ReportError(FedgrainError):
    """A folder has nothing to report on, or a tracker cannot be used."""


class ExportError(FedgrainError):
    """A model cannot be written in another format, or would not be the same there."""


class DeploymentError(FedgrainError):
    """An app folder, a certificate, a key or a site is not ready for a run across machines."""
