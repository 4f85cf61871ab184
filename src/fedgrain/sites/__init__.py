"""A site of a federation: its own images, its answers, and the worker that gives them."""

__all__: list[str] = []  # none: how a site works inside may change
