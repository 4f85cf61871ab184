"""The mistakes in a user's list of images: all of them at once, grouped by what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.text import counted

_MOST = 20  # groups that one message lists


@dataclass
class Mistake:
    """One thing that is wrong, and in how many rows."""

    where: str  # file and line of the first row
    text: str
    advice: Callable[[], str]  # found only when it is told: the nearest of 16,000 names takes time
    many: str  # how more rows are told, with {count} and {others}
    count: int = 0

    def told(self, where: str) -> str:
        """Return the mistake as half a sentence."""
        more = f" ({self.many})" if self.count > 1 else ""
        counted = more.format(count=self.count, others=self.count - 1)
        return f"{where}: {self.text}{counted}{self.advice()}"


class ManifestError(DataError):
    """A list of images with mistakes; ``mistakes`` has them one by one."""

    def __init__(self, message: str, mistakes: list[Mistake]) -> None:
        super().__init__(message)
        self.mistakes = mistakes


class Mistakes:
    """Collects mistakes while a list is read, so that all are told at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.groups: dict[tuple[str, str], Mistake] = {}
        self._rows: set[str] = set()  # only counted
        self.notes: dict[str, int] = {}  # what was forgiven, and in how many rows

    def add(
        self,
        where: str,
        what: tuple[str, str],
        text: str,
        advice: Callable[[], str] | str = "",
        many: str = "{count} rows",
    ) -> None:
        """Add a mistake; those with the same ``what`` (a kind and a word) are one group."""
        told = advice if callable(advice) else lambda: advice
        self.groups.setdefault(what, Mistake(where, text, told, many)).count += 1
        self._rows.add(where)

    def note(self, text: str) -> None:
        """Note something that was forgiven."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def forgiven(self) -> str:
        """Return what was forgiven, as one sentence; empty if nothing was."""
        if not self.notes:
            return ""
        shown = [
            f"{text} ({counted(count, 'row')})" for text, count in list(self.notes.items())[:_MOST]
        ]
        more = f", and {len(self.notes) - _MOST} more" if len(self.notes) > _MOST else ""
        return (
            f"{self._path}: read regardless of case, spaces and accents: {', '.join(shown)}{more}; "
            "fedgrain data fix writes a corrected copy"
        )

    def refuse(self) -> None:
        """Raise one error with every mistake, if there are any."""
        found = list(self.groups.values())
        if not found:
            return
        if len(found) == 1:
            raise ManifestError(found[0].told(found[0].where), found)
        start = f"{self._path}, "
        shown = [
            f"({number}) {mistake.told(mistake.where.removeprefix(start))}"
            for number, mistake in enumerate(found[:_MOST], 1)
        ]
        more = f"; and {len(found) - _MOST} more mistakes" if len(found) > _MOST else ""
        raise ManifestError(
            f"{self._path}: {len(found)} mistakes in {counted(len(self._rows), 'row')}: "
            f"{'; '.join(shown)}{more}; fedgrain data fix writes a copy, corrected where it can",
            found,
        )
