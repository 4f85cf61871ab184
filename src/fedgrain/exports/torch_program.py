"""``--format torch``: a program of torch.export, in torch's own archive."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.errors import ExportError
from fedgrain.exports.about_model import about_model
from fedgrain.exports.agreement import Agreement, check_agreement
from fedgrain.exports.exported import Exported
from fedgrain.exports.tracing import quiet, traced
from fedgrain.files import written_whole

_ENDING = ".pt2"
ABOUT = "fedgrain.json"  # in the archive


def write_torch(exported: Exported, out: Path) -> Agreement:
    """Write the archive, once what is read from it answers as the model does."""
    if out.suffix != _ENDING:
        raise ExportError(f"{out}: torch reads only files that end in {_ENDING}; name it so")
    into = io.BytesIO()
    text = json.dumps(about_model(exported.model), ensure_ascii=False)
    with quiet():
        torch.export.save(traced(exported.model), into, extra_files={ABOUT: text})
        program = torch.export.load(io.BytesIO(into.getvalue())).module()

    def run(images: NDArray[np.uint8]) -> NDArray[Any]:
        with torch.no_grad():
            return np.asarray(program(torch.from_numpy(images)))

    agreed = check_agreement("the program of torch", run, exported.model)
    with written_whole(out) as aside:
        aside.write_bytes(into.getvalue())
    return agreed
