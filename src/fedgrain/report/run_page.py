"""The report of one run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from fedgrain.catalogue import rounds_axis
from fedgrain.errors import RunError
from fedgrain.files import read_text
from fedgrain.plugins import Trust
from fedgrain.preparation.config import Config
from fedgrain.report.answers import Watch, no_watch
from fedgrain.report.branches import worst
from fedgrain.report.close_look import look_closely
from fedgrain.report.glossary import WORDS
from fedgrain.report.model_inspection import Inspection
from fedgrain.report.page import curves_view, environment_of, settings_sheet
from fedgrain.report.page_parts import Block, Page, Section
from fedgrain.report.page_tables import Sheet, percent, sheet
from fedgrain.report.redo import run_command
from fedgrain.report.sites_section import rounds_sheet
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.validation_score import describe
from fedgrain.studies.methods import method_name


def run_page(
    folder: Path, *, images: bool, trust_code: Trust = False, watch: Watch = no_watch
) -> Page:
    """Gather the report of a finished run."""
    place = RunFolder(folder)
    if not place.result.exists():
        raise RunError(
            f"{folder}: the run is not finished; go on with: "
            + shlex.join(["fedgrain", "run", str(place.config), "--out", str(folder)])
        )
    config, result = place.read_config().complete(), place.read_result()
    name = place.path.resolve().name
    clients = {knowledge_name(config): config}
    look = look_closely(place, name, clients, images=images, trust_code=trust_code, watch=watch)
    blocks = [*look.blocks, _training_block(place)]
    if look.knowledge:
        blocks.append(knowledge_block(look.knowledge))
    return Page(
        title=name,
        kind="run",
        sentence=run_sentence(config, result, look.inspection),
        sheets=(_score_sheet(result), _depth_sheet(result)),
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
    text = "How often each site took part. Its images are not here, so no more is known of it."
    return () if rounds is None else (Section("sites", "The sites", text, (rounds,)),)


def knowledge_name(config: Config) -> str:
    """Say where the clients' knowledge comes from; alpha means nothing where it is given."""
    if config.knowledge == "inferred":
        return "knowledge inferred from labels"
    if config.knowledge_file is not None:
        return f"knowledge of {config.knowledge_file.name}"
    return f"alpha {config.alpha:g}"


def run_sentence(config: Config, result: Mapping[str, Any], found: Inspection | None) -> str:
    """Summarise the result in one sentence."""
    at = "with" if knowledge_name(config).startswith("knowledge") else "at"
    text = f"On {config.dataset} {at} {knowledge_name(config)}, {method_name(config)} "
    if result["hf"] is None and result["validation_hf"] is None:
        return text + "was trained, but there were no images to evaluate it on."
    if result["hf"] is None:
        score = describe(result.get("validation"), result["validation_hf"], 3)
        return text + f"ends with a {score}."
    text += f"reaches an HF of {result['hf']:.3f} on the {result['tested_on']} images"
    if result["accuracy"] is not None:
        text += f" and names the exact class of {100 * result['accuracy']:.0f}% of them"
    if found is not None and (bad := worst(found.branches)):
        branch = bad[0]
        text += (
            f"; its weakest branch is {found.taxonomy.names[branch.node]}, where "
            f"{branch.right} of {branch.arrived} take the right child"
        )
    return text + "."


def _score_sheet(result: Mapping[str, Any]) -> Sheet:
    """Return the scores in one row."""
    shown = {
        "HF": result["hf"],
        "HR": result["hr"],
        "HP": result["hp"],
        "exact class": percent(result["accuracy"]),
        "mistake severity": result["mistake_severity"],
        "images": result["samples"],
        "validation": describe(result.get("validation"), result["validation_hf"], 3),
        "rounds": result["rounds"],
        "cycles": result["cycles"],
        "seconds": result["seconds"],
    }
    title = f"Scores on the {result['tested_on']} images" if result["tested_on"] else "Scores"
    return sheet(title, tuple(shown), [tuple(shown.values())])


def _depth_sheet(result: Mapping[str, Any]) -> Sheet:
    """Return the accuracy at each depth of the taxonomy."""
    rows = [(d + 1, percent(v)) for d, v in enumerate(result["accuracy_per_depth"] or ())]
    return sheet("Accuracy per depth of the taxonomy", ("depth", "accuracy"), rows)


def _training_block(place: RunFolder) -> Block:
    """Return validation HF and the clients' mean loss over the rounds."""
    lines = place.metrics_lines()
    hf = [line["validation_hf"] for line in lines]
    losses = [_mean_loss(line) for line in lines]
    across = rounds_axis()
    curves = {"validation HF": hf}
    if any((line.get("validation") or {}).get("leaf_share", 1) < 1 for line in lines):
        of_leaves = [(line.get("validation") or {}).get("leaf_hf") for line in lines]
        curves = {"over leaf labels": of_leaves, "over all labels, cut back": hf}
    views = (
        curves_view("validation HF", curves, across, "validation HF"),
        curves_view("loss", {"mean loss of the clients": losses}, across, "training loss"),
    )
    text = "How the model got better, round by round."
    return Block("training", "Training", text, views, "curve")


def _mean_loss(line: Mapping[str, Any]) -> float | None:
    losses = [client["loss"] for client in line["clients"] if client.get("loss") is not None]
    return fmean(losses) if losses else None


def knowledge_block(views: list[Any], chosen_by: str = "alpha") -> Block:
    """Return what each client knows."""
    text = (
        "How far down the taxonomy each client labels each class (classes from left to right in "
        "the order of the taxonomy): 100% is the class itself, 0% the root."
    )
    return Block("knowledge", "What each client knows", text, tuple(views), chosen_by)
