"""What it means for a begun run to be given a config with more rounds or cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedgrain import catalogue
from fedgrain.config.config import Config
from fedgrain.config.config_texts import differences
from fedgrain.errors import RunError

CAPS = ("rounds", "cycles")  # settings that may be raised later


def asks_for_more(before: Config, config: Config) -> bool:
    """Return whether a config only allows more rounds or cycles than the one before."""
    caps = {cap: max(getattr(before, cap), getattr(config, cap)) for cap in CAPS}
    raised = replace(before, **caps)
    return bool(differences(before, raised)) and not differences(raised, config)


def refuse_other_schedule(folder: Path, before: Config, config: Config) -> None:
    """Refuse more rounds than a cosine schedule was planned with: each rate would change."""
    for cap in (entry.cap for entry in catalogue.stages(config.algorithm)):
        old, new = getattr(before, cap), getattr(config, cap)
        if config.schedule == "cosine" and new > old:
            raise RunError(
                f"{folder}: its cosine schedule brings the learning rate down over {old} {cap}, so "
                f"the run cannot go on to {new}; choose another folder, where a run of {new} {cap} "
                "starts from the first"
            )


def first_stage_goes_on(before: Config, config: Config, stages: Sequence[str]) -> bool:
    """Return whether the first stage ended at its limit, and the config raises it."""
    entry = catalogue.algorithm(config.algorithm)
    ran = sum(stage == entry.begins_with for stage in stages)
    return entry.name in stages and config.rounds > before.rounds == ran
