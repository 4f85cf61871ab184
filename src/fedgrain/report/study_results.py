"""The results of a study as files: its tables, and its figures."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrain.errors import FedgrainError
from fedgrain.files import write_text
from fedgrain.pictures.site_figures import draw_sites
from fedgrain.pictures.study_figures import draw_operating_curves, draw_study
from fedgrain.plugins import Trust
from fedgrain.studies.methods import is_bound
from fedgrain.tables.alone import AloneRow, alone_note, alone_rows, alone_tables
from fedgrain.tables.collect import Results, read_results
from fedgrain.tables.headline import sentence
from fedgrain.tables.site_tables import site_tables
from fedgrain.tables.study_tables import Table, score_tables
from fedgrain.tables.table_formats import format_tables

_FILES = {"text": "table.txt", "json": "table.json", "csv": "table.csv"}


@dataclass(frozen=True)
class WrittenResults:
    """The results of a study, and the pictures that were drawn of them."""

    results: Results
    alone: list[AloneRow]
    tables: list[Table]
    pictures: list[Path]

    def content(self) -> dict[str, Any]:
        """Return the tables, the main finding, the pictures and what is missing, for JSON."""
        return {
            "study": self.results.study.name,
            **json.loads(format_tables(self.tables, "json")),
            "sentence": sentence(self.results),
            "alone": [row.content() for row in self.alone],
            "figures": [str(path) for path in self.pictures],
            "missing": self.results.missing,
            "cut_short": self.results.cut_short,
        }

    def text(self) -> str:
        """Return the same to be read."""
        competing = [name for name in self.results.study.methods if not is_bound(name)]
        tables = alone_tables(self.alone) if len(competing) == 1 else []  # one method: one table
        lines = [format_tables(tables or self.tables, "text")]
        if self.alone:
            lines += [alone_note(self.alone), "", *_own(self.alone), ""]
        lines += [sentence(self.results), *self.results.left()]
        if self.results.missing:
            lines.append("no operating curve yet: some cells have no result")
        lines += [f"figure: {path}" for path in self.pictures if path.suffix == ".png"]
        return "\n".join(lines)


def _own(rows: list[AloneRow]) -> list[str]:
    """Return what each site reads about its own images; the table has the rest."""
    return [row.sentence for row in rows if row.site is not None and row.own_images]


def write_results(folder: Path, *, trust_code: Trust = False) -> WrittenResults:
    """Write the tables and the figures of a study's finished runs into its folder."""
    results = read_results(folder)
    alone = alone_rows(results)
    tables = [*score_tables(results), *site_tables(results), *alone_tables(alone)]
    for form, name in _FILES.items():
        write_text(folder / name, format_tables(tables, form))
    return WrittenResults(results, alone, tables, draw(folder, results, trust_code))


def draw(folder: Path, results: Results, trust: Trust) -> list[Path]:
    """Draw every figure; the operating curve, which tests every model again, only at the end.

    It is left out if the images are not available.
    """
    pictures = [*draw_sites(folder, results), *draw_study(folder, results)]
    if results.missing:
        return pictures
    try:
        pictures += draw_operating_curves(folder, results, trust_code=trust)
    except FedgrainError as error:
        print(f"no operating curve: {error}", file=sys.stderr)
    return pictures
