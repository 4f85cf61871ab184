"""What came to a place and what left it: an append-only record, chained by hashes."""
