"""What the server and the sites send each other: its encoding, its checks and its limits."""

__all__: list[str] = []  # none: how the server and the sites talk may change
