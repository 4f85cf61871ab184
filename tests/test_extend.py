"""The guide for contributors runs as it stands: its modules, its Python and its commands."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import fedgrain
from fedgrain.cli import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extend.md"
BLOCKS = re.findall(r"```(python|console|text)\n(.*?)```", PAGE.read_text("utf-8"), flags=re.S)
MODULE = re.compile(r"# (\w+)\.py\n")
MODULES = {found[1]: block for _, block in BLOCKS if (found := MODULE.match(block))}
TABLES = {"HeadEntry": "HEADS", "NetEntry": "NETS", "DatasetEntry": "DATASETS",
          "AlgorithmEntry": "ALGORITHMS"}  # fmt: skip


def test_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # export PYTHONPATH=.
    monkeypatch.setenv("FEDGRAIN_WORKERS", "1")
    namespace: dict[str, object] = {}
    printed = ""
    try:
        for kind, block in BLOCKS:
            if kind == "console":
                _type(block, capsys)
            elif found := MODULE.match(block):
                Path(f"{found[1]}.py").write_text(block, "utf-8")
            elif kind == "python":
                capsys.readouterr()
                exec(compile(block, str(PAGE), "exec"), namespace)
                printed += capsys.readouterr().out
    finally:
        for module in MODULES:
            sys.modules.pop(module, None)
    config = json.loads(Path("runs/again/result.json").read_text("utf-8"))["config"]
    assert (config["head"], config["seed"]) == ("soft_leaves:SoftLeaves", 48)
    lines = Path("runs/turns/metrics.jsonl").read_text("utf-8").splitlines()
    stages = [json.loads(line)["stage"] for line in lines]
    assert stages == ["turns:TakeTurns"] * 4
    bold, careful = (float(line.split()[1]) for line in printed.splitlines())
    assert bold < careful <= 1.0


def _type(block: str, capsys) -> None:
    """Type the commands of a block; what stands below one is the error it ends with."""
    for command, expected in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, flags=re.M):
        if command.startswith("fedgrain "):
            capsys.readouterr()
            code = main(shlex.split(command)[1:])
            shown = capsys.readouterr().err
            assert code == (2 if expected else 0), shown
            assert expected in shown


def test_inside_the_package_a_part_is_its_file_and_one_line(tmp_path):
    house = _house_with_the_parts(tmp_path)
    command = "run --dataset stripes --net small-net --head soft-leaves --algorithm turns --json"
    done = _fedgrain(house, *command.split(), "--clients", "4", "--alpha", "0.5", "--rounds", "1",
                     "--workers", "1", "--out", tmp_path / "run")  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [result["config"][name] for name in ("dataset", "net", "head", "algorithm")] == [
        "stripes", "small-net", "soft-leaves", "turns",
    ]  # fmt: skip
    assert result["nothing_wrong"] == result["accuracy"] > 0  # leaves against leaves


def test_inside_the_package_a_data_set_to_download_is_its_file_and_one_line(tmp_path):
    """``cifar100`` under another name: its file, and a line that says it can be downloaded."""
    house = tmp_path / "house" / "fedgrain"
    shutil.copytree(Path(fedgrain.__file__).parent, house)
    own = (house / "data" / "cifar100.py").read_text("utf-8").replace('"cifar100"', '"pictures"')
    (house / "data" / "pictures.py").write_text(own, "utf-8")
    line = 'DatasetEntry("pictures", "fedgrain.data.pictures:load_cifar100", '
    line += 'layout="fedgrain.data.pictures:LAYOUT", downloadable=True),'
    _insert(house / "catalogue.py", "DATASETS = _by_name(\n", line)
    listed = _fedgrain(house, "data", "list", FEDGRAIN_CACHE=str(tmp_path), FEDGRAIN_DATA="")
    assert "pictures       not found; fedgrain data get pictures\n" in listed.stdout, listed.stderr
    nobody = {"FEDGRAIN_CACHE": str(tmp_path), "FEDGRAIN_MIRROR": "http://127.0.0.1:9"}
    got = _fedgrain(house, "data", "get", "pictures", **nobody)
    assert "http://127.0.0.1:9/cifar-100-python.tar.gz cannot be downloaded" in got.stderr


def _house_with_the_parts(tmp_path: Path) -> Path:
    """Return a copy of the package with the parts of the page added as it says."""
    house = tmp_path / "house" / "fedgrain"
    shutil.copytree(Path(fedgrain.__file__).parent, house)
    lines = [block for kind, block in BLOCKS if kind == "text"]
    assert len(lines) == 5
    for line in lines:
        room, module = re.search(r"fedgrain\.(\w+)\.(\w+):", line).groups()
        (house / room / f"{module}.py").write_text(_as_the_page_says(MODULES[module]), "utf-8")
        if "Metric(" in line:
            _insert(house / "scoring" / "summary.py", "    samples: int\n", line)
        else:
            _insert(house / "catalogue.py", f"{TABLES[line.split('(')[0]]} = _by_name(\n", line)
    return house


def _insert(file: Path, after: str, line: str) -> None:
    text = file.read_text("utf-8")
    assert after in text
    file.write_text(text.replace(after, f"{after}    {line.rstrip()}\n"), "utf-8")


def _fedgrain(house: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "fedgrain.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(house.parent), **variables},
        cwd=house.parents[1],
        capture_output=True,
        text=True,
    )


def _as_the_page_says(module: str) -> str:
    """What differs inside the package: a short name, no `supervisions`, the shape for a net."""
    module = module.replace('"turns:TakeTurns"', '"turns"').replace(
        "(self, outputs)", "(self, outputs, shape)"
    )
    return re.sub(r"    supervisions = .*\n", "", module)
