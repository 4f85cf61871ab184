"""The report of a study. Every run is read once; only means and bounded tables are kept."""

from __future__ import annotations

from pathlib import Path

from fedgrain.files import read_text
from fedgrain.pages.glossary import WORDS
from fedgrain.pages.page import environment_of
from fedgrain.pages.page_parts import Page
from fedgrain.pages.page_tables import sheet_of
from fedgrain.plugins import Trust
from fedgrain.report.study_blocks import score_blocks, training_block
from fedgrain.report.study_look import look_at_best
from fedgrain.report.study_settings import redo_commands, settings_sheets
from fedgrain.runs.run_folder import RunFolder
from fedgrain.sections.answers import Watch, no_watch
from fedgrain.studies.planned_runs import plan_runs
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.tables.collect import read_results
from fedgrain.tables.headline import sentence
from fedgrain.tables.study_tables import score_tables


def study_page(
    folder: Path, *, images: bool, trust_code: Trust = False, watch: Watch = no_watch
) -> Page:
    """Gather the report of a study, finished or not."""
    results, place = read_results(folder), StudyFolder(folder)
    rates = place.rates()
    planned = plan_runs(results.study, rates)
    values = {
        run.name: found.read_result()
        for run in planned
        if (found := RunFolder(place.runs / run.name)).result.exists()
    }
    look, looked_at = look_at_best(results, place, rates, images, trust_code, watch)
    blocks = [*score_blocks(results), training_block(results, place, rates), *look.blocks]
    first = next((RunFolder(place.runs / name) for name in values), None)
    notes = [*(f"{left}." for left in results.left()), *look.notes]
    return Page(
        title=results.study.name,
        kind="study",
        sentence=sentence(results),
        sheets=tuple(map(sheet_of, score_tables(results))),
        blocks=tuple(block for block in blocks if block.views),
        close=look.close,
        settings=settings_sheets(planned, values, place, rates, results),
        redo=redo_commands(results, place, looked_at),
        source=read_text(place.study),
        source_name="study.toml",
        environment=environment_of(first) if first else {},
        notes=tuple(notes),
        sections=tuple(look.sections),
        glossary=WORDS,
    )
