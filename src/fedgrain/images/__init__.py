"""Images as arrays on disk: where they are found, unpacked, decoded and kept."""

__all__: list[str] = []  # what is meant to be used is in `fedgrain.data`
