"""The report of one run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrain.config.config import Config
from fedgrain.errors import RunError
from fedgrain.files import read_text
from fedgrain.pages.glossary import WORDS
from fedgrain.pages.page import environment_of, settings_sheet
from fedgrain.pages.page_parts import Page, Section
from fedgrain.pages.redo import run_command
from fedgrain.plugins import Trust
from fedgrain.report.close_look import look_closely
from fedgrain.report.run_results import (
    depth_sheet,
    knowledge_name,
    run_sentence,
    score_sheet,
    training_block,
)
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.validation_score import describe
from fedgrain.sections.answers import Watch, no_watch
from fedgrain.sections.knowledge_block import knowledge_block
from fedgrain.sections.movement_block import movement_block
from fedgrain.sections.sites_section import rounds_sheet


def run_page(
    folder: Path, *, images: bool, trust_code: Trust = False, watch: Watch = no_watch
) -> Page:
    """Gather the report of a run; of one that goes on, what its rounds say so far."""
    place = RunFolder(folder)
    if not place.result.exists():
        return _so_far(place)
    config, result = place.read_config().complete(), place.read_result()
    name = place.path.resolve().name
    clients = {knowledge_name(config): config}
    look = look_closely(place, name, clients, images=images, trust_code=trust_code, watch=watch)
    blocks = [*look.blocks, training_block(place)]
    if (movement := movement_block(place.metrics_lines())) is not None:
        blocks.append(movement)
    if look.knowledge:
        blocks.append(knowledge_block(look.knowledge))
    return Page(
        title=name,
        kind="run",
        sentence=run_sentence(config, result, look.inspection),
        sheets=(score_sheet(result), depth_sheet(result)),
        blocks=tuple(blocks),
        close=look.close,
        settings=(settings_sheet("Settings", config.settings()),),
        redo=(_redo(place, config, result, name),),
        source=read_text(place.config),
        source_name="config.toml",
        environment=environment_of(place),
        notes=tuple(look.notes),
        headline=look.headline,
        sections=tuple(look.sections) or _sections_without_images(place),
        glossary=WORDS,
    )


def _so_far(place: RunFolder) -> Page:
    """Return the page of a run that is not finished."""
    on = shlex.join(["fedgrain", "run", str(place.config), "--out", str(place.path)])
    lines = place.metrics_lines() if place.metrics.exists() else []
    if not lines:
        raise RunError(f"{place.path}: the run is not finished; go on with: {on}")
    config, name = place.read_config().complete(), place.path.resolve().name
    last = lines[-1]
    score = describe(last.get("validation"), last["validation_hf"], 3)
    movement = movement_block(lines)
    return Page(
        title=name,
        kind="run",
        sentence=f"This run is not finished: {last['stage']} {last['round']}, {score}. What it "
        f"looks like at the end is not known yet; if it was stopped, go on with: {on}",
        sheets=(),
        blocks=(training_block(place), *(() if movement is None else (movement,))),
        close=None,
        settings=(settings_sheet("Settings", config.settings()),),
        redo=(("Go on with it", on),),
        source=read_text(place.config),
        source_name="config.toml",
        environment=environment_of(place),
        sections=_sections_without_images(place),
        glossary=WORDS,
    )


def _redo(
    place: RunFolder, config: Config, result: Mapping[str, Any], name: str
) -> tuple[str, str]:
    """Return the command that makes the run again; across sites, it begins with a federation."""
    if "sites" in result:
        words = [
            "fedgrain",
            "flower",
            "init",
            "federation",
            "--config",
            str(place.config.resolve()),
        ]
        sites = [word for site in result["sites"] for word in ("--site", str(site))]
        return "Train again across the sites, as docs/deploy.md says", shlex.join(words + sites)
    return "Run it again", run_command(place, bool(config.code()), f"again/{name}")


def _sections_without_images(place: RunFolder) -> tuple[Section, ...]:
    """Return what the rounds say of the sites where their images are not at hand."""
    rounds = rounds_sheet(place.metrics_lines())
    text = "How often each site took part. Without its images no more is known of it."
    return () if rounds is None else (Section("sites", "The sites", text, (rounds,)),)
