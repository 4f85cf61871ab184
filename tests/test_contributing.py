"""What a contributor runs before a commit is what `make lint` runs."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def test_hooks_are_those_of_make_lint():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, flags=re.M)
    linted = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines()]
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook["entry"] for repo in config["repos"] for hook in repo["hooks"]]
    commands = [
        entry.removeprefix(".venv/bin/").removesuffix(" --force-exclude") for entry in hooks
    ]
    assert commands == linted
