"""What the owner of a site allows: ``site.toml``, and the check of every message against it."""

__all__: list[str] = []  # none: use fedgrain flower check, allow and audit
