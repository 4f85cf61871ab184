"""The Python examples in the docs run as they stand, each page in one namespace.

Those of heads.md and training.md run in the test_docs.py of their rooms, which also look at what
they print.
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "```python" in page.read_text("utf-8") and page.stem not in ("heads", "training")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
