"""The committed results: their tables are what the runs say, and no image or weight is in them."""

import json
from pathlib import Path

import pytest

from fedgrain.cli import main
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.planned_runs import plan_runs
from fedgrain.studies.study import Study
from fedgrain.studies.study_file import read_study
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.tables.collect import read_results
from warm_processes import WarmProcesses

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PUBLISHED = sorted(path.parent for path in RESULTS.glob("*/study.toml"))


def typed(warm: WarmProcesses, script: str, *given: object, **environment: str) -> None:
    done = warm.python(ROOT / "scripts" / script, *given, **environment)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.name)
def test_tables_are_made_from_the_committed_runs(folder, warm):
    typed(warm, "publish_study.py", "--check", folder)
    assert read_results(folder).scores


def test_tables_over_several_runs_are_made_from_the_committed_ones(warm):
    typed(warm, "result_figures.py", "--check")


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.name)
def test_the_study_file_beside_it_redoes_every_run(folder):
    study = read_study(folder.with_suffix(".toml")).complete()
    planned = {run.name: run.config for run in plan_runs(study, StudyFolder(folder).rates())}
    for run in (folder / "runs").iterdir():
        assert run.name in planned
        RunFolder(run).check(planned[run.name])  # the same, or one that ended at a smaller cap


def test_on_our_own_trees_other_readings_score_as_the_runs_did():
    folder = RESULTS / "cifar100"
    trees = json.loads((folder / "trees.json").read_text())
    again = json.loads((folder / "rescored.json").read_text())
    assert trees
    for name, by_tree in trees.items():
        result = json.loads((folder / "runs" / name / "result.json").read_text())
        for metric in ("hf", "hr", "hp"):
            assert by_tree["H_full"][metric] == pytest.approx(result[metric], abs=1e-12)
            on_coarse = again[name]["leaf, on H"][metric]
            assert by_tree["H"][metric] == pytest.approx(on_coarse, abs=1e-12)


def test_only_small_text_and_figures_are_published():
    assert PUBLISHED
    for path in RESULTS.rglob("*"):
        kinds = (".toml", ".json", ".jsonl", ".md", ".svg", ".png")
        assert path.is_dir() or path.suffix in kinds, path
        assert path.stat().st_size < 500_000, path


def test_a_study_is_published_and_its_models_scored_again(tmp_path, warm):
    """By the rule the run used, the model scores what its result says."""
    settings = {"net": "own_parts:SmallNet", "clients": 4, "max_children": 4, "rounds": 1}
    methods = ("flat-softmax/paper", "cond-softmax/paper", "fedbdft/paper")
    study = Study("small", ("own_parts:few_glyphs",), methods, (0.5,), (1,), settings=settings)
    (tmp_path / "small.toml").write_text(study.toml())
    given = [str(tmp_path / "small.toml"), "--out", str(tmp_path / "study"), "--jobs", "1"]
    assert main(["study", *given, "--trust-code"]) == 0
    for script in ("publish_study", "score_again", "publish_study"):
        trust = ["--trust-code"] if script == "score_again" else []
        given = [*trust, tmp_path / "study", tmp_path / "copy"]
        typed(warm, f"{script}.py", *given, PYTHONPATH=str(ROOT / "tests"))
    again = json.loads((tmp_path / "copy/rescored.json").read_text())
    assert len(again) == len(methods)
    for name, scores in again.items():
        result = json.loads((tmp_path / "copy/runs" / name / "result.json").read_text())
        for metric in ("hf", "hr", "hp", "accuracy"):
            assert scores["leaf"][metric] == pytest.approx(result[metric], abs=1e-12)
        assert 0 < scores["leaf, on H"]["hf"] != scores["leaf"]["hf"]
        if "-softmax-" in name:  # these heads hold no probability at inner nodes
            assert scores["likeliest node"] == scores["leaf"]
    lines = (tmp_path / "copy/ranking.md").read_text().splitlines()
    assert len(lines) == 2 + len(methods)
    found = [float(line.split("|")[4]) for line in lines[2:]]
    assert found == sorted(found, reverse=True)
    assert not list((tmp_path / "copy").rglob("*.safetensors"))
    for name in set(again) - {min(again)}:  # published runs whose weights are gone are left out
        (tmp_path / "study/runs" / name / "model.json").unlink()
    (tmp_path / "copy/rescored.json").write_text("{}")
    given = ["--trust-code", tmp_path / "study", tmp_path / "copy"]
    typed(warm, "score_again.py", *given, PYTHONPATH=str(ROOT / "tests"))
    found = json.loads((tmp_path / "copy/rescored.json").read_text())
    assert found == {min(again): again[min(again)]}
