"""Between two processes of one site: a private socket, and what is sent over it."""

__all__: list[str] = []  # none: how a site works inside may change
