"""What a run's result says: a sentence, the scores, the course of the training."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from fedgrain.catalogue import rounds_axis
from fedgrain.config.config import Config
from fedgrain.pages.page import curves_view
from fedgrain.pages.page_parts import Block
from fedgrain.pages.page_tables import Sheet, percent, sheet
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.validation_score import describe
from fedgrain.sections.branches import worst
from fedgrain.sections.model_inspection import Inspection
from fedgrain.studies.methods import method_name


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
        whole = f"{100 * result['accuracy']:.0f}% of {_labelled_in_full(result)}"
        text += f" and names the exact class of {whole}"
    if found is not None and (bad := worst(found.branches)):
        branch = bad[0]
        text += (
            f"; its weakest branch is {found.taxonomy.names[branch.node]}, where "
            f"{branch.right} of {branch.arrived} take the right child"
        )
    return text + "."


def _labelled_in_full(result: Mapping[str, Any]) -> str:
    """Say of which tested images the exact class is known; older runs did not count them."""
    labels = result.get("tested_labels")
    if not labels:
        return "those labelled in full"
    whole = labels["leaf_samples"]
    return "them" if whole == labels["samples"] else f"the {whole} that are labelled in full"


def score_sheet(result: Mapping[str, Any]) -> Sheet:
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


def depth_sheet(result: Mapping[str, Any]) -> Sheet:
    """Return the accuracy at each depth of the taxonomy."""
    rows = [(d + 1, percent(v)) for d, v in enumerate(result["accuracy_per_depth"] or ())]
    return sheet("Accuracy per depth of the taxonomy", ("depth", "accuracy"), rows)


def training_block(place: RunFolder) -> Block:
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
