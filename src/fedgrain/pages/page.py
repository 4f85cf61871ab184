"""What the pages of runs and studies share: curves, settings, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedgrain.checked_json import read_checked_json
from fedgrain.pages.page_parts import View
from fedgrain.pages.page_tables import Entry, Sheet, setting, sheet
from fedgrain.pages.redo import STARTED_IN
from fedgrain.pictures.interactive_plots import curves, thinned
from fedgrain.runs.run_folder import LABEL_FILES, RunFolder

_MOST_ROWS = 40  # of the table next to a training curve


def curves_view(
    name: str, by_name: Mapping[str, Sequence[float | None]], across: str, up: str
) -> View:
    """Return curves, and the same as a table of a bounded number of rounds."""
    longest = max(map(len, by_name.values()), default=0)
    rows = [
        (
            place + 1,
            *(values[place] if place < len(values) else None for values in by_name.values()),
        )
        for place in thinned(longest, _MOST_ROWS)
    ]
    table = sheet(f"{up}, {name}" if name else up, (across, *by_name), rows)
    return View(name, curves(by_name, across, up), table)


def settings_sheet(title: str, settings: Mapping[str, Any]) -> Sheet:
    """Return settings by name, those that are not set included."""
    rows = [
        (Entry(n, n), Entry("not set") if value is None else setting(value))
        for n, value in settings.items()
    ]
    return sheet(title, ("setting", "value"), rows)


def environment_of(place: RunFolder) -> dict[str, Any]:
    """Return the versions and the machine of a run, flat."""
    if not place.environment.exists():
        return {}
    content = read_checked_json(place.environment)
    packages = content.pop("packages", {})
    for name in ("config_sha256", "data", LABEL_FILES, STARTED_IN):
        content.pop(name, None)
    return {**content, **packages}
