"""``--format onnx``: one ONNX file, with the taxonomy and the rules in its metadata."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedgrain.errors import ExportError
from fedgrain.exports.about_model import about_model, as_texts
from fedgrain.exports.agreement import Agreement, check_agreement
from fedgrain.exports.exported import Exported
from fedgrain.exports.tracing import IMAGES, PROBABILITIES, need, quiet, traced
from fedgrain.files import written_whole
from fedgrain.models.trained_model import TrainedModel

_MOST = 2**31 - 1  # bytes of one protobuf


def write_onnx(exported: Exported, out: Path) -> Agreement:
    """Write the file, once it answers in onnxruntime as the model does."""
    need("onnx", "onnx", "onnxscript", "onnxruntime")
    content = onnx_bytes(exported.model)
    session = onnx_session(content)

    def run(images: NDArray[np.uint8]) -> NDArray[Any]:
        return np.asarray(session.run(None, {IMAGES: images})[0])

    agreed = check_agreement("the ONNX file", run, exported.model)
    with written_whole(out) as aside:
        aside.write_bytes(content)
    return agreed


def onnx_bytes(model: TrainedModel, program: Any = None) -> bytes:
    """Return the model, or its program of torch.export, as the content of an ONNX file."""
    import onnx

    program = program or traced(model)
    with quiet():
        made = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            input_names=[IMAGES],
            output_names=[PROBABILITIES],
        )
    if made is None:
        raise ExportError("torch made no ONNX program of the model")
    file = made.model_proto
    _name_the_batch(file)
    onnx.helper.set_model_props(file, as_texts(about_model(model)))
    size = file.ByteSize()
    if size > _MOST:
        raise ExportError(
            f"the model has {size / 2**30:.1f} GB, and an ONNX file holds 2 GB at most; choose "
            "--format torch"
        )
    return bytes(file.SerializeToString())


def onnx_session(content: bytes, threads: int = 0) -> Any:
    """Return a session of onnxruntime on the CPU; 0 threads: as many as there are cores.

    Without the variable its import writes a device id into the home directory, for telemetry.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _name_the_batch(file: Any) -> None:
    """Give the open dimension its name wherever it occurs."""
    own = file.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*file.graph.input, *file.graph.output, *file.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == own:
                dimension.dim_param = IMAGES
