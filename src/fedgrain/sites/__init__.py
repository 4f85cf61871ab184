"""A site of a federation: its own images, its answers, and the worker that gives them."""
