"""Who takes part in a federation across machines: keys, certificates, the gate, signed apps."""
