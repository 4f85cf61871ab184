"""How pages are filled in: Jinja escapes everything that comes from a user."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def environment() -> Environment:
    """Return the templates of this room; a name that is missing is an error."""
    made = Environment(
        loader=PackageLoader("fedgrain.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    made.filters["breakable"] = breakable
    return made


def breakable(text: str) -> Markup:
    """Return an escaped text that may break after a slash.

    >>> breakable("<b>/paper")
    Markup('&lt;b&gt;/<wbr>paper')
    """
    return Markup("/<wbr>").join(text.split("/"))


def template_text(name: str) -> str:
    """Return a file of the templates as it is, such as a style sheet."""
    return (files("fedgrain.pages") / "templates" / name).read_text("utf-8")


def script_hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows an inline script."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
