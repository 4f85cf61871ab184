"""The operating curve of a finished run, from its model and its test images (method, section 7)."""

from __future__ import annotations

from pathlib import Path

from fedgrain.arithmetic import one_thread
from fedgrain.errors import RunError
from fedgrain.models.model_folder import load
from fedgrain.plugins import Trust, check_trust
from fedgrain.preparation.prepare import load_images
from fedgrain.runs.evaluate import truths
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.operating_curve import OperatingCurve, operating_curve


def curve_of_run(folder: str | Path, *, trust_code: Trust = False) -> OperatingCurve:
    """Let the run's model predict its test images, and score every threshold."""
    model, place = load(folder, trust_code=trust_code), RunFolder(folder)
    config = place.read_config().complete()
    check_trust(config.settings(), place.config, trust_code, RunError)
    data = load_images(config, model.trunk)
    if not data.split_counts.get("test"):
        raise RunError(f"{folder}: the data set of the run has no test images")
    chosen = data.split_indices("test")
    truth = truths(model, data, chosen)
    with one_thread():
        blocks = model.log_prob_blocks(model.inputs(data), chosen)
        return operating_curve(blocks, model.taxonomy, truth, model.full_taxonomy)
