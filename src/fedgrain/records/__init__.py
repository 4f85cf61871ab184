"""What came to a place and what left it: an append-only record, chained by hashes."""

__all__: list[str] = []  # none: use fedgrain flower check, allow and audit
