"""Run folders as earlier versions wrote them."""

import json
from pathlib import Path

import safetensors.torch

from fedgrain.tensor_files import read_tensors


def without_checksums(folder: Path) -> None:
    """Write the files of a run as versions before checksums did."""
    for name in ("environment.json", "model.json", "result.json"):
        content = json.loads((folder / name).read_text())
        for part in ("sha256", "has_checksum", "metrics", "config_sha256"):
            content.pop(part, None)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    for name in ("best.safetensors", "state.safetensors"):
        tensors, about = read_tensors(folder / name)
        about.pop("metrics_sha256", None)
        metadata = {"format": about.pop("format"), "about": json.dumps(about)}
        safetensors.torch.save_file(tensors, folder / name, metadata)
