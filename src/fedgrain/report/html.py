"""HTML pages that open from disk without a network: ``report.html``, and a large tree.

Jinja escapes everything that comes from a user, as text or as JSON. As a second line of defence,
the page's Content-Security-Policy allows only the two scripts that are hashed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fedgrain.errors import ReportError
from fedgrain.files import write_text
from fedgrain.pages.page_parts import Page
from fedgrain.pages.templating import environment, script_hash, template_text
from fedgrain.pictures.interactive_plots import tree_trace
from fedgrain.plugins import Trust
from fedgrain.sections.answers import Watch, no_watch
from fedgrain.taxonomy import Taxonomy
from fedgrain.version import __version__

NAME = "report.html"


def write_report(
    folder: str | Path,
    *,
    images: bool = True,
    out: str | Path | None = None,
    trust_code: Trust = False,
) -> Path:
    """Write the report of a run or a study into its folder, or elsewhere, and return its path.

    A model that needs the user's own code is inspected only if ``trust_code`` is set.
    """
    text = render(page_of(Path(folder), images=images, trust_code=trust_code))
    path = Path(folder) / NAME if out is None else Path(out)
    write_text(path, text)
    return path


def page_of(
    folder: Path, *, images: bool, trust_code: Trust = False, watch: Watch = no_watch
) -> Page:
    """Gather what the report shows; ``watch`` is called while images are predicted."""
    from fedgrain.report.run_page import run_page
    from fedgrain.report.study_page import study_page

    if (folder / "study.toml").exists():
        return study_page(folder, images=images, trust_code=trust_code, watch=watch)
    if (folder / "config.toml").exists():
        return run_page(folder, images=images, trust_code=trust_code, watch=watch)
    raise ReportError(
        f"{folder}: neither a run nor a study (there is no config.toml and no study.toml); "
        "give the folder that fedgrain run or fedgrain study wrote"
    )


def render(page: Page) -> str:
    """Return the page as HTML."""
    css = Markup(template_text("report.css"))  # our own file, not a user's text
    scripts = ("report.js", "long_tables.js")
    return _rendered("report.html.j2", scripts, page=page, version=__version__, css=css)


def write_tree_page(taxonomy: Taxonomy, path: str | Path) -> Path:
    """Write a page that shows all of a taxonomy, some levels at a time: a click goes deeper."""
    trace = {**tree_trace(taxonomy), "hovertemplate": "%{label}<br>leaves: %{value}<extra></extra>"}
    figure = {"data": [trace], "layout": {"margin": {"t": 10, "l": 10, "r": 10, "b": 10}}}
    summary = f"{len(taxonomy):,} classes, {len(taxonomy.leaves):,} of them leaves"
    name = taxonomy.names[0]
    write_text(
        path, _rendered("tree.html.j2", ("tree.js",), name=name, summary=summary, figure=figure)
    )
    return Path(path)


def _rendered(template: str, own: Sequence[str], **content: Any) -> str:
    """Fill in a template; the page may run only plotly's script and its own."""
    scripts = {"plotly": get_plotlyjs(), "script": "".join(map(template_text, own))}
    return (
        environment()
        .get_template(template)
        .render(
            hashes=Markup(" ".join(map(script_hash, scripts.values()))),
            **{name: Markup(text) for name, text in scripts.items()},  # ours, not a user's text
            **content,
        )
    )
