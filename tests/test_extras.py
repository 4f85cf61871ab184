"""What can be installed beside fedgrain is named where a reader starts."""

import re
import tomllib

from doc_pages import ROOT


def test_the_table_of_extras_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"dev"}
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/start.md").read_text("utf-8"), flags=re.M)
    named = [name for row in rows for name in re.findall(r"`(.*?)`", row)]
    assert sorted(named) == sorted(extras)
