"""Every public name is in docs/api.md, exists, and says in a docstring what it is."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedgrain
import fedgrain.studies

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "api.md").read_text("utf-8")
DOCUMENTED = re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", PAGE, flags=re.M)
SOURCE = Path(fedgrain.__file__).parent
ROOMS = sorted(f"fedgrain.{path.parent.name}" for path in SOURCE.glob("*/__init__.py"))
GROUND = sorted(f"fedgrain.{path.stem}" for path in SOURCE.glob("*.py") if path.stem != "__init__")


def offered(module):
    return list(getattr(importlib.import_module(module), "__all__", ()))


@pytest.mark.parametrize("module", ["fedgrain", *ROOMS, *GROUND])
def test_page_holds_what_a_package_offers(module):
    names = offered(module)
    assert len(names) == len(set(names)), "a name twice"
    on_page = [name for name in DOCUMENTED if name.rpartition(".")[0] == module]
    assert sorted(on_page) == sorted(f"{module}.{name}" for name in names)


def test_every_documented_name_is_offered_by_a_package():
    homes = {name.rpartition(".")[0] for name in DOCUMENTED}
    assert homes <= {"fedgrain", *ROOMS, *GROUND}


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_says_what_is_public_and_in_one_place(room):
    package = importlib.import_module(room)
    assert isinstance(package.__all__, list)
    if hasattr(package, "__getattr__"):  # a lazy name that is also a module would be either
        modules = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
        assert not modules.intersection(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    for path in Path(package.__file__).parent.glob("[!_]*.py"):
        assert "\n__all__" not in path.read_text("utf-8"), f"{path}: __all__ belongs to the room"


def test_a_name_that_does_not_exist_is_an_attribute_error():
    for module in (fedgrain, fedgrain.studies):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no .* 'oak'"):
            _ = module.oak


def test_rooms_load_torch_only_when_a_name_is_used():
    """Otherwise ``fedgrain --help`` is slow, and ``study demo`` too late for its arithmetic."""
    lazy = ["fedgrain.cli", "fedgrain.studies.options", "fedgrain.runs", "fedgrain.report"]
    script = (
        f"import sys, {', '.join(lazy)}; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_names_exist_and_are_described(name):
    package, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(package), last)
    if callable(found):
        described = inspect.getdoc(found) or ""
        assert described.strip() and not described.startswith(f"{last}("), name


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_examples_use_only_what_is_documented(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)
    imported = {
        f"{node.module}.{alias.name}"
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedgrain")
        for alias in node.names
    }
    assert imported <= set(DOCUMENTED)
