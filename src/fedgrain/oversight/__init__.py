"""Whether a federation across machines is well: the check of a site, the state of a server."""

__all__: list[str] = []  # none: the commands of ``fedgrain flower`` are the interface
