"""What left this site, ever: one page, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedgrain.records.audit import Audit, Sum
from fedgrain.text import one_line

_SAYS = {
    "query": "counts of samples",
    "train": "updated weights",
    "evaluate": "validation scores",
}
_PROVES = (
    "Altered, removed, added and reordered entries are found from this file alone. A record cut at "
    "its end is found from its head, which is in a file next to it; whoever can change both files "
    "can cut both. To find that as well, note the head above somewhere else (--head), or compare "
    "with the record of the other side, which notes this head with every message (--peer)."
)


def size_of(count: int) -> str:
    """Return a number of bytes as people say it.

    >>> size_of(999), size_of(1_500_000)
    ('999 B', '1.5 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def rows(parts: Sequence[Sum], way: str) -> list[tuple[str, ...]]:
    """Return a table of what went one way: kind, messages, bytes, first, last, largest norm."""
    found = []
    for part in parts:
        what = _SAYS.get(part.kind, part.kind) if way == "left" else f"{part.kind} messages"
        norm = "" if part.largest_norm is None else f"{part.largest_norm:.4g}"
        times = [moment[:19].replace("T", " ") for moment in (part.first, part.last)]
        found.append((one_line(what), str(part.messages), size_of(part.bytes), *times, norm))
    return found


HEADINGS = ("what", "messages", "bytes", "first (UTC)", "last (UTC)", "largest norm")


def lines_of(audit: Audit) -> list[str]:
    """Return the facts besides the two tables."""
    declined = ", ".join(f"{one_line(rule)} {count}×" for rule, count in audit.declined.items())
    facts = [
        f"verified: {audit.entries} entries, {audit.since[:19]} to {audit.until[:19]} UTC",
        f"head: {audit.head}",
        f"runs: {len(audit.runs)}",
        f"declined: {declined or 'nothing'}",
        f"failed: {audit.failed}",
    ]
    if audit.repaired:
        facts.append(f"torn last lines that were repaired: {audit.repaired}")
    if audit.epsilon is not None:
        facts.append(f"privacy spent, over all updates: epsilon {audit.epsilon:.3g}")
    if audit.compared or audit.only_here:
        facts.append(
            f"compared with the other side's record: {audit.compared} messages agree, "
            f"{len(audit.only_here)} are only here"
        )
    return facts


def as_text(audit: Audit) -> str:
    """Return the page for a terminal."""
    parts = [f"What left {one_line(audit.whose)}, ever", "", *lines_of(audit)]
    for way, of in (("left", audit.left), ("came", audit.came)):
        table = [HEADINGS, *rows(of, way)]
        widths = [max(len(row[n]) for row in table) for n in range(len(HEADINGS))]
        parts += ["", f"{way}:"]
        parts += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
                  for row in table]  # fmt: skip
        parts += [] if of else ["  nothing"]
    return "\n".join([*parts, "", _PROVES]) + "\n"


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#222}table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.3rem .8rem;"
    "border-bottom:1px solid #ccc;text-align:left}td:nth-child(2),td:nth-child(3){text-align:right}"
    "li{overflow-wrap:anywhere}"
)


def as_html(audit: Audit) -> str:
    """Return the page as one HTML file."""
    title = escape(f"What left {one_line(audit.whose)}, ever")
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1><ul>",
        *(f"<li>{escape(line)}</li>" for line in lines_of(audit)),
        "</ul>",
    ]
    for way, of in (("left", audit.left), ("came", audit.came)):
        parts.append(f"<h2>What {way}</h2>")
        head = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows(of, way)
        )
        nothing = f'<tr><td colspan="{len(HEADINGS)}">nothing</td></tr>'
        parts.append(f"<table><tr>{head}</tr>{body or nothing}</table>")
    return "\n".join([*parts, f"<p>{escape(_PROVES)}</p></body></html>"]) + "\n"
