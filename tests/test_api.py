"""Every public name is in docs/api.md, exists, and says in a docstring what it is."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "api.md").read_text("utf-8")
DOCUMENTED = re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)$", PAGE, flags=re.M)
PACKAGES = (
    "fedgrain", "fedgrain.taxonomy", "fedgrain.knowledge", "fedgrain.data", "fedgrain.nets",
    "fedgrain.heads", "fedgrain.scoring", "fedgrain.federated", "fedgrain.engines",
)  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_page_holds_what_a_package_offers(package):
    offered = importlib.import_module(package).__all__
    assert offered == sorted(set(offered), key=offered.index), "a name twice"
    on_page = [name for name in DOCUMENTED if name.rpartition(".")[0] == package]
    on_page = [name for name in on_page if name not in (*PACKAGES, "fedgrain.errors")]
    assert sorted(on_page) == sorted(f"{package}.{name}" for name in offered)


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name != "fedgrain.errors"])
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
