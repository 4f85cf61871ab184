"""From a config to a federation: images, clients, what they know and write."""

__all__: list[str] = []  # none: runs begin with it
