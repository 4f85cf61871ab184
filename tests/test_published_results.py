"""The committed results: their tables are what the runs say, and no image or weight is in them."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedgrain.experiment.config import differences, read_config
from fedgrain.experiment.results import collect
from fedgrain.experiment.run_study import StudyFolder
from fedgrain.experiment.study import plan_runs, read_study

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PUBLISHED = sorted(path.parent for path in RESULTS.glob("*/study.toml"))


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.name)
def test_tables_are_made_from_the_committed_runs(folder):
    script = ROOT / "scripts" / "publish_study.py"
    command = [sys.executable, str(script), "--check", str(folder)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert collect(folder).scores


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.name)
def test_the_study_file_beside_it_redoes_every_run(folder):
    study = read_study(folder.with_suffix(".toml")).complete()
    planned = {run.name: run.config for run in plan_runs(study, StudyFolder(folder).rates())}
    for run in (folder / "runs").iterdir():
        assert run.name in planned
        assert differences(read_config(run / "config.toml"), planned[run.name]) == []


def test_only_small_text_and_figures_are_published():
    assert PUBLISHED
    for path in RESULTS.rglob("*"):
        kinds = (".toml", ".json", ".jsonl", ".md", ".svg", ".png")
        assert path.is_dir() or path.suffix in kinds, path
        assert path.stat().st_size < 500_000, path
