"""The parts of ``fedgrain flower``: the server, the sites, members, keys, status, the audit."""

__all__: list[str] = []  # none: the commands of ``fedgrain flower`` are the interface
