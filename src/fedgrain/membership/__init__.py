"""Who takes part in a federation across machines: keys, certificates, the gate, signed apps."""

__all__: list[str] = []  # none: the commands of ``fedgrain flower`` are the interface
