"""The house keeps its order, and the script that says so would notice if it did not."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "import_graph.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("import_graph", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_house_is_clean(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["import_graph.py"])
    assert script.main() == 0
    assert capsys.readouterr().out.endswith("no cycle, no import against the order\n")


def test_rooms_are_those_of_the_page_and_of_the_folder(script):
    page = (SCRIPT.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    listed = [line.split("`")[1].rstrip("/") for line in page.splitlines() if "/` |" in line]
    assert listed == list(script.ROOMS)
    package = script.SOURCE / script.PACKAGE
    assert set(script.ROOMS) == {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    assert set(script.GROUND) == modules
    drawn = (SCRIPT.parents[1] / "docs" / "figures" / "architecture.svg").read_text("utf-8")
    assert [room for room in script.ROOMS if f"{room}/" not in drawn] == []


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ({"fedgrain.heads.base": {"fedgrain.scoring.rules"}}, "a room after its own"),
        ({"fedgrain.errors": {"fedgrain.files"}}, "a room after its own"),
        ({"fedgrain.cellar.wine": set()}, "in no room"),
        ({"fedgrain.runs.run": {"fedgrain"}}, "imports the package itself"),
        (
            {"fedgrain.runs.run": {"fedgrain.runs.result"},
             "fedgrain.runs.result": {"fedgrain.runs.run"}},
            "a cycle: fedgrain.runs.",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(script, graph, told):
    (problem,) = script.problems(graph)
    assert told in problem
    assert script.problems({"fedgrain.scoring.rules": {"fedgrain.heads.base"}}) == []


@pytest.mark.parametrize(
    "source",
    [
        "import fedgrain.heads.base",
        "from fedgrain.heads import base",
        "from fedgrain.heads.base import Head",
        "def later():\n    from fedgrain.heads.base import Head",
        "from ..heads.base import Head",
        "from ..heads import base",
        "if not TYPE_CHECKING:\n    import fedgrain.heads.base",
        "if TYPE_CHECKING:\n    import ast\nelse:\n    import fedgrain.heads.base",
    ],
)
def test_every_way_to_import_is_seen(script, tmp_path, source):
    (tmp_path / "load.py").write_text(source)
    known = {"fedgrain.data.load": tmp_path / "load.py", "fedgrain.heads.base": Path("base.py"),
             "fedgrain.heads": Path("heads/__init__.py")}  # fmt: skip
    assert script.imports_of("fedgrain.data.load", known) == {"fedgrain.heads.base"}


@pytest.mark.parametrize(
    "source",
    ["if TYPE_CHECKING:\n    import fedgrain.heads.base", "import heads", "from ..heads import x"],
)
def test_what_is_no_import_of_a_module(script, tmp_path, source):
    (tmp_path / "load.py").write_text(source)
    known = {"fedgrain.data.load": tmp_path / "load.py", "fedgrain.heads.base": Path("base.py")}
    assert script.imports_of("fedgrain.data.load", known) == set()


def test_dots_count_from_a_package_for_its_own_file(script, tmp_path):
    (tmp_path / "__init__.py").write_text("from .base import Head\nfrom ..data import load\n")
    known = {"fedgrain.heads": tmp_path / "__init__.py", "fedgrain.heads.base": Path("base.py"),
             "fedgrain.data.load": Path("load.py")}  # fmt: skip
    assert script.imports_of("fedgrain.heads", known) == {
        "fedgrain.heads.base",
        "fedgrain.data.load",
    }
