"""The documentation site: ``sphinx-build -W docs build/docs``."""

from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

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
html_math_renderer = "mathml"  # which browsers draw themselves: the site needs no network
html_theme = "furo"
html_title = "fedgrain"
html_static_path = ["_static"]
html_css_files = ["site.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}


def setup(app):
    """Write formulas as MathML."""

    def written(as_block):
        def visit(translator, node):
            translator.body.append(tex2mathml(node.astext(), as_block=as_block))
            raise nodes.SkipNode

        return visit

    app.add_html_math_renderer("mathml", (written(False), None), (written(True), None))
