"""README's commands: all parse, and those for photographs are the ones typed on own-data.md.

``make demo`` takes minutes: what it types is planned here, not trained.
"""

import re

import pytest

from doc_pages import ROOT, commands
from fedgrain.cli import build_parser, main

PAGE = "README.md"


@pytest.mark.parametrize("words", commands(PAGE), ids=" ".join)
def test_it_parses(words):
    program, *rest = words
    if program == "make":
        made = (ROOT / "Makefile").read_text("utf-8")
        assert all(re.search(rf"^{target}:", made, flags=re.M) for target in rest)
    elif program == "pip":
        assert rest[0] == "install"
    else:
        assert callable(build_parser().parse_args(rest).run)


def test_the_photographs_of_the_readme_are_trained_as_on_the_page_for_them():
    """That command is typed in test_own_photographs.py; here only the names of folders differ."""
    there, here = (
        next(words for words in commands(page) if words[:2] == ["fedgrain", "run"])
        for page in ("docs/own-data.md", PAGE)
    )
    assert [{"my-photos": "site", "runs/mine": "runs/site"}.get(w, w) for w in here] == there


def test_what_make_demo_types_is_the_table_of_the_readme(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    typed = re.search(r"^demo:.*\n.*?fedgrain (study demo .*)$", makefile(), flags=re.M)
    assert main([*typed[1].split(), "--dry-run"]) == 0
    planned = capsys.readouterr().out.split()
    page = (ROOT / PAGE).read_text("utf-8")
    methods = re.findall(r"^([a-z-]+/[a-z]+)  +\S", page, flags=re.M)
    shown = {name.replace("/", "-") for name in methods}
    assert len(shown) >= 4
    assert {re.sub(r"^glyphs-|-alpha.*$", "", run) for run in planned} == shown


def makefile() -> str:
    return (ROOT / "Makefile").read_text("utf-8")
