"""The examples of docs/training.md run as they stand."""

import re
import sys
from pathlib import Path

import pytest

from fedgrain.cli import build_parser

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def test_python_examples(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        file = re.match(r"# (\w+\.py)\n", block)
        if file:
            (tmp_path / file[1]).write_text(block)
        else:
            exec(compile(block, "docs/training.md", "exec"), names)
    sys.modules.pop("mine")
    out = capsys.readouterr().out
    assert "physical entity > " in out
    assert "fedavg 1 0." in out
    told = set(re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", PAGE, flags=re.MULTILINE))
    found = {path.name for path in (tmp_path / "runs" / "first").iterdir()} - {".lock"}
    assert told == found | {"faults.log"}  # only there once a client's training has failed


def test_commands_and_options_exist(capsys) -> None:
    commands = re.findall(r"^\$ fedgrain (.*?)(?: +#.*)?$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        build_parser().parse_args(command.split())
    with pytest.raises(SystemExit):
        build_parser().parse_args(["run", "--help"])
    there = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    table = "".join(line for line in PAGE.splitlines() if line.startswith("| `--"))
    told = set(re.findall(r"--[a-z-]+", table))
    assert told <= there
    negations = {
        "--no-allow-links",
        "--no-coarsen",
        "--no-crop-and-flip",
        "--no-embed-trunk",
        "--no-infer-knowledge",
        "--no-mixed-clients",
        "--no-pooled",
        "--no-zero-shot",
    }
    assert there - told == {"--help", "--out", "--json", *negations}
