"""The content of a report before it becomes HTML: the parts that runs and studies share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgrain.checked_json import read_checked_json
from fedgrain.errors import FedgrainError, ReportError
from fedgrain.models.model_folder import load
from fedgrain.plugins import Trust, check_trust
from fedgrain.preparation.config import Config
from fedgrain.preparation.prepare import load_images
from fedgrain.report.interactive_plots import Figure, curves, knowledge_map, sunburst, thinned
from fedgrain.report.model_inspection import Inspection, Sites, inspect, sites_of, worst
from fedgrain.report.page_tables import Entry, Sheet, percent, setting, sheet
from fedgrain.runs.run_folder import RunFolder
from fedgrain.taxonomy import Taxonomy

_MOST_ROWS = 40  # of the table next to a training curve


@dataclass(frozen=True)
class View:
    """One view of a block: a plot, and a table of the same numbers."""

    name: str
    figure: Figure
    sheet: Sheet


@dataclass(frozen=True)
class Block:
    """A heading with plots to choose from."""

    key: str
    heading: str
    text: str
    views: tuple[View, ...]
    chosen_by: str = ""  # what distinguishes the views, such as alpha


@dataclass(frozen=True)
class TreeNode:
    """A node of the tree that shows the sunburst's content as text."""

    name: str
    about: str
    children: tuple[TreeNode, ...]


@dataclass(frozen=True)
class Close:
    """One run looked at closely."""

    run: str
    tested: str
    sunburst: Figure
    tree: TreeNode
    branches: Sheet
    worst: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Page:
    """Everything on the page."""

    title: str
    kind: str
    sentence: str
    sheets: tuple[Sheet, ...]
    blocks: tuple[Block, ...]
    close: Close | None
    settings: tuple[Sheet, ...]
    redo: tuple[tuple[str, str], ...]  # what it does, the command
    source: str  # study.toml or config.toml
    source_name: str
    environment: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass
class Look:
    """The inspection of a run, as far as its model and its images are available."""

    close: Close | None = None
    knowledge: list[View] = field(default_factory=list)
    inspection: Inspection | None = None
    notes: list[str] = field(default_factory=list)


def look_closely(
    place: RunFolder,
    name: str,
    others: Mapping[str, Config],
    *,
    images: bool,
    trust_code: Trust = False,
) -> Look:
    """Inspect one run, and what clients know in it or, at several alphas, in ``others`` by name."""
    look = Look()
    try:
        model = load(place.path, trust_code=trust_code)
        config = place.read_config().complete()
        for used in (config, *others.values()):
            check_trust(used.settings(), place.config, trust_code, ReportError)
        here = config.data_root or config.manifest
        if config.dataset == "folder" and here is None:  # trained across real sites
            raise ReportError("its images stayed at their sites")
        data = load_images(config, model.trunk)
        sites = sites_of(config, data, model.taxonomy)
        look.inspection = inspect(model, config, data, images=images)
        for view_name, other in others.items():
            known = sites_of(other, data, model.taxonomy)
            look.knowledge.append(_knowledge_view(view_name, model.taxonomy, known))
    except (FedgrainError, OSError) as error:
        look.notes.append(f"No closer look at the model of {name}: {error}.")
        return look
    look.close = _close_view(name, look.inspection, sites)
    return look


def _close_view(name: str, found: Inspection, sites: Sites) -> Close:
    """Return the sunburst, the same as a text tree, and the branches."""
    tree, scores = found.taxonomy, found.scores
    knowing = sites.known.sum(axis=0)
    figure = sunburst(tree, scores.recall, scores.truths, knowing, len(sites.names))
    about = figure["data"][0]["text"]
    shown = [
        {"name": tree.names[branch.node], "branch": branch, "examples": examples}
        for branch in worst(found.branches)
        if (examples := found.examples.get(branch.node))
    ]
    return Close(
        name,
        f"{found.tested} {found.split} images",
        figure,
        _tree(tree, about, 0),
        _branch_sheet(found),
        tuple(shown),
    )


def _tree(tree: Taxonomy, about: Sequence[str], node: int) -> TreeNode:
    children = tuple(_tree(tree, about, child) for child in tree.children(node).tolist())
    return TreeNode(tree.names[node], about[node], children)


def _branch_sheet(found: Inspection) -> Sheet:
    """Return every branch, the worst first."""
    tree = found.taxonomy
    rows = [
        (
            " / ".join(tree.names[n] for n in tree.path(branch.node)),
            int(tree.child_counts[branch.node]),
            branch.arrived,
            branch.arrived - branch.right,
            percent(branch.accuracy),
        )
        for branch in found.branches
    ]
    names = ("branch", "children", "samples led to it", "led on wrongly", "right")
    return sheet("Branches, the worst first", names, rows)


def _knowledge_view(name: str, tree: Taxonomy, sites: Sites) -> View:
    """Return each client's knowledge as a map and as a table."""
    depths = sites.label_depths(tree)
    leaves = tree.leaves
    rows = [
        (
            client,
            f"{int(known[leaves].sum())} of {len(leaves)}",
            percent(float(known[leaves].mean())),
            f"{int(known.sum())} of {len(tree)}",
            float(label_depths.mean()),
        )
        for client, known, label_depths in zip(sites.names, sites.known, depths, strict=True)
    ]
    names = ("client", "classes known", "share", "nodes known", "mean depth of labels")
    return View(name, knowledge_map(tree, sites.names, depths), sheet(name, names, rows))


def curves_view(
    name: str, by_name: Mapping[str, Sequence[float | None]], across: str, up: str
) -> View:
    """Return curves, and the same as a table of a bounded number of rounds."""
    longest = max(map(len, by_name.values()), default=0)
    rows = [
        (
            place + 1,
            *(values[place] if place < len(values) else None for values in by_name.values()),
        )
        for place in thinned(longest, _MOST_ROWS)
    ]
    table = sheet(f"{up}, {name}" if name else up, (across, *by_name), rows)
    return View(name, curves(by_name, across, up), table)


def settings_sheet(title: str, settings: Mapping[str, Any]) -> Sheet:
    """Return settings by name, those that are not set included."""
    rows = [
        (Entry(n, n), Entry("not set") if value is None else setting(value))
        for n, value in settings.items()
    ]
    return sheet(title, ("setting", "value"), rows)


def environment_of(place: RunFolder) -> dict[str, Any]:
    """Return the versions and the machine of a run, flat."""
    if not place.environment.exists():
        return {}
    content = read_checked_json(place.environment)
    packages = content.pop("packages", {})
    content.pop("config_sha256", None)
    return {**content, **packages}
