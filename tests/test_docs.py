"""The Python examples in the docs run as they stand, each page in one namespace.

Those of docs/heads.md run in tests/heads/test_docs.py, which also looks at what they print.
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "```python" in page.read_text("utf-8") and page.stem != "heads"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
