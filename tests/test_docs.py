"""The Python examples in the docs run as they stand, each page in one namespace.

Those of docs/heads.md, docs/training.md, docs/extend.md and docs/export.md run in tests of their
own, which also look at what they print; that of docs/studies.md would take minutes, so it runs on a
study of one run.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedgrain.studies.presets import preset

DOCS = Path(__file__).resolve().parents[1] / "docs"
SOURCE = DOCS.parent / "src"
CITED = re.compile(r"sections? ([\d, ]+(?:(?:and|to) \d+)?)")
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "```python" in page.read_text("utf-8")
    and page.stem not in ("heads", "training", "studies", "extend", "export")
)


class Progress:
    """What the page on studies says a progress is."""

    def start(self, what, total, done):
        pass

    def finished(self, name, problem):
        assert problem is None


def test_study_example_runs(tmp_path, monkeypatch):
    page = DOCS / "studies.md"
    one = {"methods": ("fedbdft/paper",), "alphas": (0.9,), "seeds": (47,)}
    small = replace(preset("demo"), **one, settings={"rounds": 1, "cycles": 0})
    monkeypatch.setattr("fedgrain.studies.presets.preset", {"demo": small}.__getitem__)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)
    namespace: dict[str, object] = {"progress": Progress()}
    exec(compile(block, str(page), "exec"), namespace)
    estimate = namespace["results"].estimate("glyphs", "fedbdft/paper", 0.9, "hf")
    assert len(estimate.values) == 1


def test_the_demos_table_is_of_the_demo():
    demo, tables = preset("demo"), []
    for page in (DOCS.parent / "README.md", DOCS / "studies.md"):
        text = page.read_text("utf-8")
        (table,) = re.findall(r"^ +alpha 0.9\nmethod .*?\nOn glyphs [^`]*", text, flags=re.S | re.M)
        tables.append(table.split())
        rows = re.findall(r"^(\S+) +[*_]?0\.", table, flags=re.M)
        assert tuple(rows) == demo.methods
    assert tables[0] == tables[1]
    assert demo.alphas == (0.9,) and len(demo.seeds) >= 3  # enough for an interval


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


def test_sections_that_the_code_cites_are_in_the_method():
    headings = re.findall(r"^## (\d+)\. ", (DOCS / "method.md").read_text("utf-8"), flags=re.M)
    assert headings == [str(number) for number in range(1, 13)]
    cited = {
        number
        for file in SOURCE.rglob("*.py")
        for numbers in CITED.findall(file.read_text("utf-8"))
        for number in re.findall(r"\d+", numbers)
    }
    assert cited and cited <= set(headings)
