"""The documentation site: ``sphinx-build -W docs build/docs``."""

from pathlib import Path

from fedgrain import __version__

project = "fedgrain"
author = "The fedgrain authors"
copyright = f"2026, {author}"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "results/*/*.md"]  # tables that pages include

html_extra_path = ["../build/reports"] if Path("../build/reports").is_dir() else []  # make docs
html_theme = "furo"
html_title = "fedgrain"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}
