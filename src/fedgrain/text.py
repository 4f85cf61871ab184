"""Make text from outside safe for a log or a terminal, and short enough for a picture."""

from __future__ import annotations

import unicodedata

_SHORT = 200  # characters


def one_line(text: object, most: int = _SHORT) -> str:
    r"""Return text from outside as one short, printable line.

    Line ends, escapes, marks that turn the direction of writing and halves of characters are
    written as Python would escape them, so that nobody can forge a line of a log or steer a
    terminal. What is longer than ``most`` characters is cut off.

    >>> one_line("zoo\nfedgrain: finished")
    'zoo\\nfedgrain: finished'
    >>> one_line("a" * 10, most=5)
    'aaaa…'
    """
    whole = str(text)
    shown = "".join(map(_shown, whole[: most + 1]))
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def shortened(text: str, longest: int) -> str:
    """Cut a text that is longer than ``longest`` characters, so that it fits where it is drawn.

    >>> shortened("great white shark", 12)
    'great white…'
    """
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(2000, "row"), counted(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def encodable(text: str) -> str:
    r"""Return a text that UTF-8 can encode: file names may contain other bytes.

    >>> encodable("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(sign: str) -> str:
    if sign.isprintable():
        return sign
    if unicodedata.category(sign) == "Zs":
        return " "
    return sign.encode("unicode_escape").decode("ascii")


def spoken_time(seconds: float) -> str:
    """Return a time in the unit one would say it in.

    >>> [spoken_time(seconds) for seconds in (7.6, 300, 5400, 200000)]
    ['8 s', '5 min', '1.5 h', '2.3 days']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"
