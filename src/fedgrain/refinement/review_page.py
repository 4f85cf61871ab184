"""The page of a review: one file of HTML, whose policy allows its own style and script only."""

from __future__ import annotations

from markupsafe import Markup

from fedgrain.pages.templating import environment, script_hash, template_text
from fedgrain.text import encodable, one_line
from fedgrain.version import __version__


def review_page(manifest: str, annotator: str) -> tuple[bytes, str]:
    """Return the page, and the Content-Security-Policy it is sent with.

    Everything from the manifest comes later, as JSON, and is shown as text.
    """
    css, script = template_text("review.css"), template_text("review.js")
    page = (
        environment()
        .get_template("review.html.j2")
        .render(
            title=one_line(manifest),
            annotator=one_line(annotator),
            css=Markup(css),  # our own files, not a user's text
            script=Markup(script),
            version=__version__,
        )
    )
    policy = (
        f"default-src 'none'; img-src 'self' data:; style-src {script_hash(css)}; "
        f"script-src {script_hash(script)}; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    return encodable(page).encode(), policy
