"""Errors that tell a user what is wrong, where, and what to do."""


class FedgrainError(ValueError):
    """A mistake in the input: the command line prints it without a traceback and exits with 2."""


class TaxonomyError(FedgrainError):
    """The taxonomy, its file or the list of classes is not usable."""


class KnowledgeError(FedgrainError):
    """What the clients know, its file or the wish for it is not usable."""
