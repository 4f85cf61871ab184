"""What the owner of a site allows: ``site.toml``, and the check of every message against it."""
