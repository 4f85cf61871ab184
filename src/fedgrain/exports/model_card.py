"""The card of a model for the Hugging Face Hub: what it knows, who taught it, how well it does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from fedgrain.errors import FedgrainError
from fedgrain.exports.exported import Exported
from fedgrain.models.trained_model import TrainedModel
from fedgrain.runs.run_folder import RunFolder
from fedgrain.taxonomy import Taxonomy
from fedgrain.text import one_line
from fedgrain.version import __version__

_LINES = 60  # of the taxonomy that are shown
_SITES = 30  # that are listed
_UNSAID = "unknown"  # the Hub's word for a licence nobody has named


def model_card(exported: Exported) -> str:
    """Return the text of ``README.md``."""
    run = _run_of(exported.folder)
    name = "A fedgrain model" if exported.folder is None else exported.folder.resolve().name
    parts = [
        _front(exported, run),
        f"# {_plain(name)}\n",
        "An image classifier over a taxonomy, trained across sites with fedgrain "
        f"{__version__}: it answers as far down the tree as it is sure.\n",
        _taxonomy(exported.model),
        _sites(run),
        _scores(run),
        _licence(exported),
        _use(exported.model),
    ]
    return "\n".join(part for part in parts if part)


def _run_of(folder: Path | None) -> dict[str, Any]:
    """Return the result, the config and the rounds of the run, as far as the folder has them."""
    if folder is None:
        return {}
    run = RunFolder(folder)
    try:
        if not run.result.exists():
            return {}
        result = run.read_result()
        return {"result": result, "config": result.get("config") or {}, "rounds": _rounds(run)}
    except FedgrainError:
        return {}  # a model without its run


def _rounds(run: RunFolder) -> list[dict[str, Any]]:
    return run.metrics_lines() if run.metrics.exists() else []


def _front(exported: Exported, run: dict[str, Any]) -> str:
    """Return the metadata that the Hub reads, as YAML; JSON texts are YAML texts."""
    lines = [
        "---",
        f"license: {json.dumps(exported.licence or _UNSAID)}",
        "library_name: fedgrain",
        "pipeline_tag: image-classification",
        "tags:",
        "- federated-learning",
        "- hierarchical-classification",
        "- image-classification",
    ]
    result = run.get("result", {})
    scores = {"hierarchical F": result.get("hf"), "leaf accuracy": result.get("accuracy")}
    if any(value is not None for value in scores.values()):
        data = json.dumps(str(run["config"].get("dataset", "its own images")))
        lines += ["model-index:", "- name: fedgrain", "  results:", "  - task:"]
        lines += ["      type: image-classification", "    dataset:", f"      name: {data}"]
        lines += [f"      type: {data}", "    metrics:"]
        for name, value in scores.items():
            if value is not None:
                kind = name.replace(" ", "_")
                lines += [f"    - type: {kind}", f"      name: {name}", f"      value: {value:.4f}"]
    return "\n".join([*lines, "---", ""])


def _taxonomy(model: TrainedModel) -> str:
    tree = model.taxonomy
    depth = int(tree.depth.max())
    shown = _drawn(tree)
    left = len(tree) - len(shown)
    more = f"\n... and {left:,} more, in `config.json`" if left else ""
    return (
        f"## Taxonomy\n\n{len(tree):,} classes, {len(tree.leaves):,} of them leaves, "
        f"{depth} levels below the root.\n\n```\n" + "\n".join(shown) + f"{more}\n```\n"
    )


def _drawn(tree: Taxonomy) -> list[str]:
    """Return the upper levels of the tree as indented lines, as many as fit."""
    deepest = 0
    counts = [len(level) for level in tree.levels]
    while deepest + 1 < len(counts) and sum(counts[: deepest + 2]) <= _LINES:
        deepest += 1
    nodes = [node for node in range(len(tree)) if tree.depth[node] <= deepest]
    return [f"{'  ' * int(tree.depth[n])}{_plain(tree.names[n])}" for n in nodes[:_LINES]]


def _sites(run: dict[str, Any]) -> str:
    if not run:
        return ""
    config, told = run["config"], []
    count, alpha = config.get("clients"), config.get("alpha")
    sites: Counter[str] = Counter()
    for line in run["rounds"]:
        for client in line["clients"]:
            sites[str(client["client"])] = max(
                sites[str(client["client"])], int(client.get("samples", 0))
            )
    told.append(f"{count or len(sites)} sites took part. No image left its site.")
    if alpha is not None:
        told.append(
            f"Granularity (simulated): each site does not know {alpha:.0%} of the leaf classes "
            f"(alpha {alpha:g}, knowledge `{config.get('knowledge')}`) and labels such images by "
            "the nearest class above that it knows."
        )
    else:
        told.append(
            "Granularity: each site labelled at its own level of detail, with classes at any "
            "depth of the taxonomy."
        )
    told.append(f"Coarse labels were read as `{config.get('supervision')}`.")
    listed = list(sites.items())[:_SITES]
    table = ["| site | images it trained on |", "|---|---|"]
    table += [f"| {_plain(name)} | {samples:,} |" for name, samples in listed]
    more = f"\n\nand {len(sites) - _SITES} more." if len(sites) > _SITES else ""
    tables = "\n".join(table) + more + "\n" if listed else ""
    return f"## Sites\n\n{' '.join(told)}\n\n{tables}"


def _scores(run: dict[str, Any]) -> str:
    result = run.get("result", {})
    if result.get("hf") is None:
        return "## Scores\n\nNo images were kept for testing.\n"
    rows = ["| score | value |", "|---|---|"]
    for name, key in (("hierarchical F", "hf"), ("hierarchical recall", "hr"),
                      ("hierarchical precision", "hp"), ("leaf accuracy", "accuracy")):  # fmt: skip
        if result.get(key) is not None:
            rows.append(f"| {name} | {result[key]:.4f} |")
    for depth, value in enumerate(result.get("accuracy_per_depth") or [], start=1):
        rows.append(f"| accuracy at depth {depth} | {'-' if value is None else f'{value:.4f}'} |")
    images = result.get("samples")
    tested = f"{images:,} images" if images else "the images"
    return (
        f"## Scores\n\nOn {tested} of the split `{result['tested_on']}`; depth 1 is the level "
        "below the root.\n\n" + "\n".join(rows) + "\n"
    )


def _licence(exported: Exported) -> str:
    licence = exported.licence or "not named: fill in `license` above before you publish the model"
    trunk = exported.model.trunk
    told = f"## Licence\n\nModel: {_plain(licence)}.\n"
    if trunk is not None:
        told += (
            f"\nIt contains the pretrained weights of `{trunk.net}` (`trunk.safetensors`), which "
            "have a licence of their own.\n"
        )
    return told


def _use(model: TrainedModel) -> str:
    trust = ", trust_code=True" if ":" in model.head_name or _is_code(model.net_name) else ""
    return f"""## How to use

```python
import fedgrain
from huggingface_hub import snapshot_download

model = fedgrain.load(snapshot_download("you/your-model"){trust})  # or a local folder
for found in model.predict(["photo.jpg"], rule="threshold", threshold=0.8):
    print(" > ".join(found.names), found.probability)
```

or as a module of PyTorch, from uint8 images to the probability of every class:

```python
from fedgrain.exports import HubModel

model = HubModel.from_pretrained("you/your-model"{trust})
```
"""


def _is_code(net: str) -> bool:
    return ":" in net and not net.startswith("timm:")


def _plain(text: str) -> str:
    """Return a text of a user's as one line that starts nothing in Markdown."""
    text = one_line(text).replace("|", "\\|").replace("`", "'")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[")
