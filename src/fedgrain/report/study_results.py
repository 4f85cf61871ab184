"""The results of a study as files: its tables, and its figures."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrain.errors import FedgrainError
from fedgrain.files import write_text
from fedgrain.plugins import Trust
from fedgrain.report.study_figures import draw_operating_curves, draw_study
from fedgrain.studies.collect import Results, read_results
from fedgrain.studies.headline import sentence
from fedgrain.studies.table_formats import format_tables
from fedgrain.studies.tables import Table, score_tables

_FILES = {"text": "table.txt", "json": "table.json", "csv": "table.csv"}


@dataclass(frozen=True)
class WrittenResults:
    """The results of a study, and the pictures that were drawn of them."""

    results: Results
    tables: list[Table]
    pictures: list[Path]

    def content(self) -> dict[str, Any]:
        """Return the tables, the main finding, the pictures and what is missing, for JSON."""
        return {
            "study": self.results.study.name,
            **json.loads(format_tables(self.tables, "json")),
            "sentence": sentence(self.results),
            "figures": [str(path) for path in self.pictures],
            "missing": self.results.missing,
            "cut_short": self.results.cut_short,
        }

    def text(self) -> str:
        """Return the same to be read."""
        lines = [format_tables(self.tables, "text"), sentence(self.results), *self.results.left()]
        if self.results.missing:
            lines.append("no operating curve yet: some cells have no result")
        lines += [f"figure: {path}" for path in self.pictures if path.suffix == ".png"]
        return "\n".join(lines)


def write_results(folder: Path, *, trust_code: Trust = False) -> WrittenResults:
    """Write the tables and the figures of a study's finished runs into its folder."""
    results = read_results(folder)
    tables = score_tables(results)
    for form, name in _FILES.items():
        write_text(folder / name, format_tables(tables, form))
    return WrittenResults(results, tables, draw(folder, results, trust_code))


def draw(folder: Path, results: Results, trust: Trust) -> list[Path]:
    """Draw every figure; the operating curve, which tests every model again, only at the end.

    It is left out if the images are not available.
    """
    pictures = draw_study(folder, results)
    if results.missing:
        return pictures
    try:
        pictures += draw_operating_curves(folder, results, trust_code=trust)
    except FedgrainError as error:
        print(f"no operating curve: {error}", file=sys.stderr)
    return pictures
