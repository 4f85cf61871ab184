"""What a program must know of a model beside its numbers, as texts in the exported file."""

from __future__ import annotations

import json
from typing import Any

from fedgrain.models.trained_model import TrainedModel
from fedgrain.scoring.specificity import specificity
from fedgrain.taxonomy import to_json
from fedgrain.version import __version__

FORMAT = "fedgrain-export-1"
_RULES = {
    "leaf": "of the nodes in `leaves`, the one with the highest probability; the first among "
    "equals",
    "threshold": "of the nodes with at least the probability you ask for, those with the lowest "
    "number in `specificity`; of these the one with the highest probability, then the first id",
    "majority": "as threshold, with more than 0.5",
    "expected-hf": "the node with the highest mean hierarchical F over the leaves, each with its "
    "probability, on full_taxonomy",
}


def about_model(model: TrainedModel) -> dict[str, Any]:
    """Return the description of a model as JSON holds it.

    A column of the output is a node: ``nodes[column]`` is its id, ``names[column]`` its name.
    """
    height, width, channels = model.image_shape
    tree = model.taxonomy
    return {
        "format": FORMAT,
        "fedgrain_version": __version__,
        "net": model.net_name,
        "head": model.head_name,
        "temperature": 1.0 if model.calibration is None else model.calibration.temperature,
        "images": {
            "type": "uint8",
            "layout": ["images", "height", "width", "channels"],
            "height": height,
            "width": width,
            "channels": channels,
            "before": "upright by EXIF, RGB, the centre square, resized with Pillow",
            "interpolation": model.interpolation,
        },
        "nodes": list(tree.ids),
        "names": list(tree.names),
        "leaves": tree.leaves.tolist(),
        "specificity": specificity(tree).tolist(),
        "rules": _RULES,
        "taxonomy": to_json(tree),
        "full_taxonomy": to_json(model.full_taxonomy),
    }


def as_texts(about: dict[str, Any]) -> dict[str, str]:
    """Return each entry as a text: itself, or else as JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in about.items()
    }
