"""Print who imports whom, and check it: no cycle, and no import against the order of the rooms.

Imports inside functions count as well; only those under ``if TYPE_CHECKING`` do not, except in
an ``__init__``. The order is that of docs/architecture.md. Exit code 1 if anything is wrong.

    python scripts/import_graph.py [--modules] [--json]
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "fedgrain"
# A module imports from its own room and from rooms before it. The first line is the ground floor:
# single modules that every room may use.
GROUND = (
    "version", "errors", "text", "cores", "files", "parsing", "checksums", "randomness",
    "arithmetic", "plugins", "catalogue", "lazy", "checked_json", "tensor_files",
)  # fmt: skip
ROOMS = (
    "taxonomy", "knowledge", "images", "data", "folders", "importers", "readers", "nets", "heads",
    "scoring", "calibration", "trunks", "federated", "engines", "models", "config", "preparation",
    "runs", "exports", "studies", "tables", "benchmark", "policy", "records", "messages",
    "handover", "deployment", "sites", "membership", "oversight", "pictures", "pages", "sections",
    "report", "refinement", "terminal", "flower_commands", "cli",
)  # fmt: skip


def modules() -> dict[str, Path]:
    """Return every module of the package with its file."""
    found = {}
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports_of(module: str, known: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports, wherever in its file.

    What an ``__init__`` imports for type checkers counts too: there the names are loaded lazily.
    """
    tree = ast.parse(known[module].read_text("utf-8"))
    for node in ast.walk(tree) if known[module].name != "__init__.py" else ():
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = [] if not isinstance(node.test, ast.UnaryOp) else node.body
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = _source(node, module, known)
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                found.add(inner if inner in known else source)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in known}


def _source(node: ast.ImportFrom, module: str, known: dict[str, Path]) -> str:
    """Return what ``from ... import`` imports from, in full also where it is written with dots."""
    if not node.level:
        return node.module or ""
    above = node.level - (known[module].name == "__init__.py")
    parts = module.split(".")
    return ".".join([*parts[: len(parts) - above], *([node.module] if node.module else [])])


def room_of(module: str) -> str:
    """Return the room of a module; the package itself, which only opens doors, has none."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def problems(graph: dict[str, set[str]]) -> list[str]:
    """Say what is against the order, and the first cycle."""
    place = {room: number for number, room in enumerate((*GROUND, *ROOMS))}
    found = []
    for module, targets in sorted(graph.items()):
        room = room_of(module)
        if room and room not in place:
            found.append(f"{module} is in no room of the documented order")
            continue
        for target in sorted(targets):
            if module == PACKAGE or (target == PACKAGE and not room):
                continue
            if target == PACKAGE:
                found.append(f"{module} imports the package itself, which imports everything")
            elif room_of(target) != room and place.get(room_of(target), -1) > place[room]:
                found.append(f"{module} imports {target}, a room after its own")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"a cycle: {' -> '.join(error.args[1])}")
    return found


def main() -> int:
    """Print the graph and what is wrong with it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--modules", action="store_true", help="print every module's imports")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    known = modules()
    graph = {module: imports_of(module, known) - {module} for module in known}
    wrong = problems(graph)
    lengths = {module: len(path.read_text("utf-8").splitlines()) for module, path in known.items()}
    longest = max(lengths, key=lengths.__getitem__)
    widest = max(graph, key=lambda module: len(graph[module]))
    facts = {
        "modules": len(known),
        "longest_file": f"{longest} ({lengths[longest]} lines)",
        "largest_fan_out": f"{widest} ({len(graph[widest])} imports)",
        "problems": wrong,
    }
    edges: dict[str, Counter[str]] = defaultdict(Counter)
    for module, targets in graph.items():
        for target in targets:
            if room_of(target) != room_of(module) and room_of(module):
                edges[room_of(module)][room_of(target)] += 1
    if args.json:
        print(json.dumps({**facts, "rooms": {room: dict(edges[room]) for room in edges}}, indent=2))
        return bool(wrong)
    if args.modules:
        for module, targets in sorted(graph.items()):
            print(f"{module}: {', '.join(sorted(targets)) or '-'}")
    for room in ROOMS:
        used = sorted(edges[room].items(), key=lambda item: (*GROUND, *ROOMS).index(item[0]))
        print(f"{room:<11} <- {', '.join(f'{name} {count}' for name, count in used)}")
    for name, value in facts.items():
        if name != "problems":
            print(f"{name.replace('_', ' ')}: {value}")
    print("\n".join(wrong) if wrong else "no cycle, no import against the order")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
