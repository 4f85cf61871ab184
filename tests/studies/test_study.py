"""Studies: which runs they ask for, and that each is run once, to the same bits, whatever fails."""

import json
import os
import shutil
import time
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path

import pytest

from fedgrain import Config
from fedgrain.checked_json import read_checked_json
from fedgrain.errors import ConfigError, FedgrainError, StudyError
from fedgrain.images.decode import _mapper
from fedgrain.runs.run import run
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.execute import run_study
from fedgrain.studies.executors import local_workers
from fedgrain.studies.methods import method_name, parse_method
from fedgrain.studies.planned_runs import plan_runs, run_name, selected
from fedgrain.studies.presets import PRESETS, preset
from fedgrain.studies.rate_search import runs_to_search
from fedgrain.studies.study import Study
from fedgrain.studies.study_file import read_study
from fedgrain.studies.study_folder import StudyFolder, check_folder
from fedgrain.tables.collect import read_results
from fedgrain.tables.study_tables import score_tables
from study_parts import killed_once, long_sleep, process_number

SETTINGS = {
    "net": "own_parts:SmallNet", "clients": 4, "max_children": 4, "batch": 16, "lr": 0.1,
    "rounds": 2, "cycles": 1,
}  # fmt: skip
SMALL = Study(
    "small",
    datasets=("own_parts:few_glyphs",),
    methods=("cond-softmax/paper", "fedbdft/paper", "oracle"),
    alphas=(0.0, 0.5),
    seeds=(1,),
    settings=SETTINGS,
)


class Here(Executor):
    """Runs a job where it is submitted."""

    def __init__(self):
        self.jobs = []

    def submit(self, fn, /, *args, **kwargs):
        self.jobs.append(Path(args[1]).name)
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Watched:
    """A progress display that remembers."""

    def __init__(self):
        self.told = []

    def start(self, what, total, done):
        self.told.append((what, total, done))

    def finished(self, name, problem):
        self.told.append((name, problem))


def untimed(values):
    """A result without what differs from run to run."""
    return {name: v for name, v in values.items() if name not in ("seconds", "core_seconds")}


def worked_off(study, folder):
    executor, progress = Here(), Watched()
    outcome = run_study(study, folder, executor, progress)
    return outcome, executor.jobs, progress.told


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "small"
    return folder, *worked_off(SMALL, folder)


# what a study asks for


def test_methods_by_name():
    found = parse_method("fedbdft/projection")
    assert (found.algorithm, found.head, found.supervision) == (
        "fedbdft", "cond-softmax", "projection",
    )  # fmt: skip
    assert parse_method("oracle:ps-softmax").settings(0.9, 4) == [
        {"algorithm": "fedavg", "head": "ps-softmax", "supervision": "paper", "alpha": 0.0}
    ]
    alone = parse_method("local-only").settings(0.9, 3)
    assert [one["only_client"] for one in alone] == [0, 1, 2]
    assert {one["alpha"] for one in alone} == {0.9}
    assert parse_method("own_parts:OwnHead/paper").head == "own_parts:OwnHead"
    for head in ("ps-softmax", "own_parts:OwnHead"):
        for algorithm in ("scaffold", "own_parts:LastWeights"):
            found = parse_method(f"{algorithm}:{head}/paper")
            assert (found.algorithm, found.head) == (algorithm, head)
            assert method_name(Config(**found.settings(0.5, 4)[0])) == found.name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flat-softmax", "neither <head>/<supervision>"),
        ("oak/paper", "there is no head 'oak'"),
        ("cond-sigmoid/projection", "cond-sigmoid takes supervision paper, not projection"),
        ("softmax-margin/projection", "takes supervision paper or marginal, not projection"),
        ("fedbdft/marginal", "fedbdft takes supervision paper or projection"),
        ("oracle:", "a head is missing"),
        ("oracle:oak", "there is no head 'oak'"),
    ],
)
def test_methods_that_do_not_exist(name, words):
    with pytest.raises(StudyError, match=words):
        parse_method(name)


def test_the_grid_asks_for_each_run_once():
    planned = {run.name: run for run in plan_runs(SMALL, {})}
    start = "own_parts-few_glyphs"
    assert set(planned) == {
        f"{start}-{method}-paper-alpha{alpha}-seed1"
        for method in ("cond-softmax", "fedbdft")
        for alpha in ("0", "0.5")
    }  # the oracle is the run at alpha 0
    for alpha in ("0", "0.5"):
        fedbdft = planned[f"{start}-fedbdft-paper-alpha{alpha}-seed1"]
        assert fedbdft.after == f"{start}-cond-softmax-paper-alpha{alpha}-seed1"
        assert planned[fedbdft.after].after is None
    other = replace(SMALL, methods=("cond-softmax/paper", "fedbdft/projection"))
    assert {run.after for run in plan_runs(other, {})} == {None}  # another first stage


def test_a_variant_is_a_method_with_settings_of_its_own():
    name = "flat-softmax/projection+laziness=0.25+crop_and_flip=true"
    study = replace(SMALL, methods=("flat-softmax/projection", name), alphas=(0.5,))
    plain, variant = plan_runs(study, {"own_parts:few_glyphs": {"flat-softmax": {"lr": 0.3}}})
    assert variant.name == (
        "own_parts-few_glyphs-flat-softmax-projection-laziness-0.25-crop_and_flip-true-"
        "alpha0.5-seed1"
    )
    assert (variant.config.lr, variant.config.laziness, variant.config.crop_and_flip) == (
        0.3, 0.25, True,
    )  # fmt: skip
    assert plain.config == replace(variant.config, laziness=0.0, crop_and_flip=False)
    own = replace(study, methods=(name.replace("laziness=0.25", "lr=0.7"),))
    (run,) = plan_runs(own, {"own_parts:few_glyphs": {"flat-softmax": {"lr": 0.3}}})
    assert run.config.lr == 0.7  # its own word is the last


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("+laziness", "'laziness' is not KEY=VALUE"),
        ("+lazines=0.1", "'lazines' is not a setting of fedgrain run; did you mean laziness"),
        ("+alpha=0.1", "alpha is decided by the grid"),
        ("+laziness=much", "laziness is 'much'"),
        ("+lr=0.1+lr=0.2", r"'flat-softmax/projection\+lr=0.1\+lr=0.2' has a setting twice"),
        ("+server_momentum=0.9", "server_momentum need an optimizer at the server"),
    ],
)
def test_bad_variants_are_one_sentence(ending, words):
    with pytest.raises((StudyError, ConfigError), match=words):
        replace(SMALL, methods=(f"flat-softmax/projection{ending}",))


def test_only_what_matches_is_run_and_the_first_pattern_comes_first(tmp_path):
    names = [run.name for run in selected(plan_runs(SMALL, {}), ["*fedbdft*0.5*", "*alpha0-*"])]
    start = "own_parts-few_glyphs"
    assert names == [
        f"{start}-fedbdft-paper-alpha0.5-seed1",
        f"{start}-cond-softmax-paper-alpha0-seed1",
        f"{start}-fedbdft-paper-alpha0-seed1",
    ]
    progress = Watched()
    outcome = run_study(SMALL, tmp_path / "s", Here(), progress, None, ["*cond*alpha0-seed1"])
    assert list(outcome.values) == [f"{start}-cond-softmax-paper-alpha0-seed1"]
    assert progress.told[0] == ("runs", 1, 0)
    assert read_results(tmp_path / "s").missing == 3  # the oracle is the run at alpha 0
    with pytest.raises(StudyError, match=r"no run of the study matches \*oak\*"):
        run_study(SMALL, tmp_path / "other", Here(), progress, None, ["*oak*"])
    assert not (tmp_path / "other").exists()


def test_bounds_are_runs_of_their_own():
    study = replace(SMALL, methods=("centralised", "local-only:flat-softmax"), alphas=(0.5,))
    names = [run.name for run in plan_runs(study, {})]
    assert len(names) == len(set(names)) == 5
    assert sum("centralised" in name for name in names) == 1
    assert [run.config.only_client for run in plan_runs(study, {})].count(None) == 1


def test_a_setting_of_projection_is_one_of_all_runs():
    study = Study("x", methods=("flat-softmax/projection",), settings={"laziness": 0.1})
    assert {run.config.laziness for run in plan_runs(study, {})} == {0.1}


def test_a_study_survives_its_file(tmp_path):
    for study in (SMALL, *map(preset, PRESETS)):
        (tmp_path / "study.toml").write_text(study.complete().toml())
        assert read_study(tmp_path / "study.toml") == study.complete()
    text = (tmp_path / "study.toml").read_text()
    assert "patience = 10" in text  # complete: defaults are written out
    assert "\nalpha =" not in text


def test_presets_are_the_papers():
    large = preset("paper-imagenet")
    assert large.methods == (
        "flat-softmax/paper", "softmax-margin/paper", "cond-softmax/paper", "fedbdft/paper",
    )  # fmt: skip
    assert (large.seeds, large.search_seeds) == ((47, 48, 49, 50, 51), (43, 44, 45))
    config = large.configs("imagenet", "fedbdft/paper", 0.9, 47)[0]
    assert (config.join_ratio, config.batch, config.patience, config.min_delta) == (
        0.4, 128, 10, 1e-4,
    )  # fmt: skip
    small = preset("paper-cifar100")
    assert len(small.methods) == 7
    assert (small.seeds, small.search_seeds) == (tuple(range(47, 57)), tuple(range(42, 47)))
    assert (small.alphas, small.search) == ((0.0, 0.3, 0.6, 0.9), True)
    zero_shot = preset("paper-zero-shot", ["imagenet"])
    assert (zero_shot.zero_shot, zero_shot.alphas) == (True, (0.0,))
    assert zero_shot.seeds == large.seeds
    with pytest.raises(StudyError, match="there is no study 'oak'"):
        preset("oak")


def test_settings_of_a_method_hold_for_every_supervision_and_share_the_first_stage(tmp_path):
    study = replace(
        SMALL,
        methods=("cond-softmax/projection", "cond-softmax/paper+lr=0.4", "fedbdft/projection"),
        method_settings={"cond-softmax": {"lr": 0.2}, "fedbdft": {"lr": 0.2, "branch_lr": 0.3}},
    )
    (tmp_path / "again.toml").write_text(study.toml())
    assert read_study(tmp_path / "again.toml") == study
    runs = {run.name: run for run in plan_runs(study, {}) if "alpha0.5" in run.name}
    whole, variant, fedbdft = runs.values()
    assert (whole.config.lr, variant.config.lr) == (0.2, 0.4)  # a variant's own win
    assert (fedbdft.config.lr, fedbdft.config.branch_lr) == (0.2, 0.3)
    assert fedbdft.after == whole.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("methods = []", "methods is empty"),
        ("seeds = [1, 1]", "seeds has a value twice"),
        ("seeds = 47", "seeds is 47, but must be a list of whole numbers"),
        ("alphas = ['much']", "must be a list of numbers"),
        ("method = ['oracle']", "'method' is not a part of a study; did you mean methods"),
        ("search = 1", "search is 1, but must be true or false"),
        ("settings = 1", "settings is 1, but must be a table of settings"),
        ("method_settings = 1", "method_settings is 1, but must be a table of settings"),
        ("[settings]\nround = 3", "'round' is not a setting of a run; did you mean rounds"),
        ("[settings]\nalpha = 0.5", "setting alpha is decided by the grid"),
        ("[settings]\nrounds = 0", "rounds is 0, but must lie between"),
        ("[method_settings.oak]\nlr = 1", "method_settings has 'oak', but the study has flat"),
        ("[method_settings.flat-softmax]\nrate = 1", "'rate' is not a setting of a run"),
        ("[method_settings.flat-softmax]\nseed = 1", "setting seed is decided by the grid"),
        ("[method_settings.flat-softmax]\nrounds = 0", "rounds is 0, but must lie between"),
        (
            "[method_settings]\nflat-softmax = 1",
            "method_settings.flat-softmax is 1, but must be a t",
        ),
        ("alphas = [0.95]", "alpha is 0.95"),
        ("zero_shot = true", "zero-shot needs alpha 0"),
        ("seeds = [", "not TOML"),
        ("search = true\ncandidates = [-1]", "lr is -1.0, but must lie"),
        ('methods = ["fedbdft/paper"]\nsearch = true\nbranch_candidates = [nan]', "branch_lr is n"),
        ("search = true\n[search_settings]\nrounds = 0", "rounds is 0"),
        ('methods = ["local-only"]\n[settings]\nclients = "x"', "clients is 'x'"),
        ('methods = ["local-only"]\n[settings]\nclients = -1', "clients is -1"),
    ],
)
def test_bad_studies_are_one_sentence(tmp_path, text, words):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(StudyError, match=words) as refused:
        read_study(file)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


# working it off


def test_every_run_is_run_and_counted(finished):
    folder, outcome, jobs, told = finished
    assert not outcome.failures
    assert set(outcome.values) == set(jobs) == {p.name for p in (folder / "runs").iterdir()}
    assert told[0] == ("runs", 4, 0)
    assert sorted(told[1:]) == sorted((name, None) for name in jobs)
    results = read_results(folder)
    oracle = results.by_seed("own_parts:few_glyphs", "oracle", 0.5, "hf")
    assert oracle == results.by_seed("own_parts:few_glyphs", "cond-softmax/paper", 0.0, "hf")


def test_a_second_stage_comes_next_when_its_first_has_ended(finished, tmp_path):
    class OneByOne(Here):
        at_a_time = 1

    executor = OneByOne()
    run_study(SMALL, tmp_path / "small", executor, Watched())
    start = "own_parts-few_glyphs"
    assert executor.jobs == [
        f"{start}-{stage}-paper-alpha{alpha}-seed1"
        for alpha in ("0", "0.5")
        for stage in ("cond-softmax", "fedbdft")
    ]
    assert sorted(executor.jobs) == sorted(finished[2])


def test_a_shared_first_stage_gives_the_same_bits(finished, tmp_path):
    folder, *_ = finished
    config = SMALL.configs("own_parts:few_glyphs", "fedbdft/paper", 0.5, 1)[0]
    shared = folder / "runs" / run_name(config)
    run(config, tmp_path / "alone")
    for name in ("best.safetensors", "model.json", "config.toml"):
        assert (shared / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    one, other = (RunFolder(f).read_result() for f in (shared, tmp_path / "alone"))
    assert untimed(one) == untimed(other)
    lines = [
        [
            json.loads(line) | {"seconds": 0}
            for line in (f / "metrics.jsonl").read_text().splitlines()
        ]
        for f in (shared, tmp_path / "alone")
    ]
    assert lines[0] == lines[1]
    base = folder / "runs" / run_name(replace(config, algorithm="fedavg"))
    first = (base / "metrics.jsonl").read_text()
    assert (shared / "metrics.jsonl").read_text().startswith(first)  # the very rounds, not others


def test_a_finished_study_runs_nothing_and_may_grow(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("result.json")}
    outcome, jobs, told = worked_off(SMALL, folder)
    assert (jobs, told) == ([], [("runs", 4, 4)])
    assert len(outcome.values) == 4
    _, jobs, told = worked_off(replace(SMALL, seeds=(1, 2)), folder)
    assert len(jobs) == 4
    assert all(name.endswith("seed2") for name in jobs)
    assert told[0] == ("runs", 8, 4)
    assert before == {p: p.stat().st_mtime_ns for p in before}
    assert read_study(folder / "study.toml").seeds == (1, 2)


def test_a_study_that_is_allowed_more_rounds_is_one_that_always_was(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "grown")
    more = replace(SMALL, settings={**SETTINGS, "rounds": 3, "cycles": 2})
    (folder / "study.toml").write_text(more.complete().toml())
    assert (read_results(folder).missing, read_results(folder).cut_short) == (0, 4)
    _, jobs, _ = worked_off(more, folder)
    assert len(jobs) == 4
    assert read_results(folder).cut_short == 0
    worked_off(more, tmp_path / "whole")
    names = sorted(path.parent.name for path in folder.rglob("result.json"))
    assert len(names) == 4
    for name in names:
        one, other = (place / "runs" / name for place in (folder, tmp_path / "whole"))
        assert (one / "best.safetensors").read_bytes() == (other / "best.safetensors").read_bytes()
        assert (one / "config.toml").read_text() == (other / "config.toml").read_text()
        ended = [RunFolder(place).read_result() for place in (one, other)]
        assert untimed(ended[0]) == untimed(ended[1])
    assert worked_off(more, folder)[1] == []


def test_a_result_that_cannot_be_gone_on_from_is_kept(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "published")
    for path in folder.rglob("*.safetensors"):
        path.unlink()
    before = {p: p.read_bytes() for p in folder.rglob("*.*") if p.parent.parent.name == "runs"}
    outcome, *_ = worked_off(replace(SMALL, settings={**SETTINGS, "rounds": 3}), folder)
    assert len(outcome.failures) == 4
    assert all(
        "no state.safetensors to continue from" in told for told in outcome.failures.values()
    )
    after = {p: p.read_bytes() for p in before}
    assert after == before


@pytest.mark.parametrize("damaged", ["{}", '{"rates": {"glyphs": 3}, "tables": {}}'])
def test_a_damaged_search_is_told(tmp_path, damaged):
    study = replace(SMALL, search=True)
    (tmp_path / "study.toml").write_text(study.complete().toml())
    (tmp_path / "search.json").write_text(damaged)
    with pytest.raises(StudyError, match=r"search.json: rates is missing or damaged; remove"):
        read_results(tmp_path)
    with pytest.raises(StudyError, match=r"search.json: rates is missing or damaged; remove"):
        worked_off(study, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": (3,)}, "seeds without 1"),
        ({"settings": {**SETTINGS, "rounds": 1}}, r"rounds \(2 and 1\)"),
        ({"search": True}, "search"),
        ({"method_settings": {"fedbdft": {"branch_lr": 0.3}}}, "fedbdft"),
    ],
)
def test_the_folder_of_another_study_is_refused(finished, change, words):
    folder, *_ = finished
    text = (folder / "study.toml").read_text()
    with pytest.raises(StudyError, match=words):
        worked_off(replace(SMALL, **change), folder)
    assert (folder / "study.toml").read_text() == text


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(StudyError, match=r"not a study \(letter.txt\)"):
        worked_off(SMALL, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_two_studies_in_one_folder_exclude_each_other(tmp_path):
    class Second(Here):
        def submit(self, fn, /, *args, **kwargs):
            with pytest.raises(FedgrainError, match="another process is running here"):
                run_study(SMALL, tmp_path / "s", Here(), Watched())
            return super().submit(fn, *args, **kwargs)

    study = replace(SMALL, methods=("cond-softmax/paper",), alphas=(0.0,))
    assert run_study(study, tmp_path / "s", Second(), Watched()).values


def test_a_failed_run_is_reported_and_stops_no_other(tmp_path):
    study = replace(
        SMALL, methods=("own_parts:ExplodingHead/paper", "flat-softmax/paper"), alphas=(0.0,)
    )
    outcome, jobs, told = worked_off(study, tmp_path / "s")
    assert len(jobs) == 2
    assert [name for name in outcome.values if "flat-softmax" in name]
    ((name, problem),) = outcome.failures.items()
    assert "ExplodingHead" in name
    assert "NaN" in problem
    assert (name, problem) in told
    assert read_checked_json(tmp_path / "s" / "failures.json") == outcome.failures
    assert read_results(tmp_path / "s").missing == 1


def test_a_zero_shot_study_ends_in_seen_and_unseen(tmp_path):
    study = replace(
        SMALL, methods=("flat-softmax/paper", "centralised"), alphas=(0.0,), zero_shot=True
    )
    outcome, *_ = worked_off(study, tmp_path / "s")
    (table,) = score_tables(read_results(tmp_path / "s"))
    assert [(column.group, column.name) for column in table.columns] == [
        ("own_parts:few_glyphs", "seen HF"),
        ("own_parts:few_glyphs", "unseen HF"),
    ]
    for (method, cells), word in zip(table.rows, ("flat-softmax", "centralised"), strict=True):
        (values,) = [v for name, v in outcome.values.items() if word in name]
        assert word in method
        assert [cell.mean for cell in cells] == [values["seen_hf"], values["unseen_hf"]]


# the search of learning rates


def test_the_search_takes_the_best_mean_validation_hf(tmp_path):
    study = replace(
        SMALL, methods=("flat-softmax/projection", "fedbdft/paper", "oracle:flat-softmax"),
        alphas=(0.5,), search=True, candidates=(0.0, 0.1), branch_candidates=(0.0, 0.02),
        search_seeds=(5, 6),
    )  # fmt: skip
    assert runs_to_search(study, StudyFolder(tmp_path / "s")) == 12
    outcome, _, told = worked_off(study, tmp_path / "s")
    assert not outcome.failures
    assert runs_to_search(study, StudyFolder(tmp_path / "s")) == 0
    more = replace(study, search_seeds=(5, 6, 7))
    assert runs_to_search(more, StudyFolder(tmp_path / "s")) == 6
    assert [line[:2] for line in told if len(line) == 3] == [
        ("search of lr", 8), ("search of branch_lr", 4), ("runs", 3),
    ]  # fmt: skip
    found = json.loads((tmp_path / "s" / "search.json").read_text())
    (tables,) = found["tables"].values()
    (rates,) = found["rates"].values()
    assert set(tables) == {"flat-softmax", "cond-softmax", "fedbdft"}
    for searched, table in tables.items():
        setting = table["setting"]
        for value, by_seed in table["validation_hf"].items():
            assert table["mean_validation_hf"][value] == pytest.approx(sum(by_seed.values()) / 2)
            for seed, score in by_seed.items():
                name = f"own_parts-few_glyphs-{searched}-paper-alpha0-seed{seed}-{setting}{value}"
                result = json.loads((tmp_path / "s/search" / name / "result.json").read_text())
                assert (result["validation_hf"], result["config"]["alpha"]) == (score, 0.0)
                assert result["config"][setting] == float(value)
        means = table["mean_validation_hf"]
        assert table["best"] == float(max(means, key=means.get))
        assert rates[searched][setting] == table["best"]
    assert rates["flat-softmax"]["lr"] == 0.1  # with a rate of 0 nothing is learned
    assert rates["fedbdft"]["lr"] == rates["cond-softmax"]["lr"]
    for values in outcome.values.values():
        config = values["config"]
        searched = "fedbdft" if config["algorithm"] == "fedbdft" else config["head"]
        assert all(config[name] == value for name, value in rates[searched].items())
    assert read_results(tmp_path / "s").missing == 0
    shutil.rmtree(tmp_path / "s/search")
    assert worked_off(study, tmp_path / "s")[1] == []  # nothing is searched twice
    assert json.loads((tmp_path / "s" / "search.json").read_text()) == found
    longer = replace(study, settings={**study.settings, "rounds": 9})
    with pytest.raises(StudyError, match=r"rounds \(2 and 9, which was used in the search"):
        worked_off(longer, tmp_path / "s")


def test_a_candidate_that_diverges_is_out_and_the_search_has_settings_of_its_own(tmp_path):
    study = replace(
        SMALL, methods=("flat-softmax/paper",), alphas=(0.5,), search=True,
        candidates=(0.1, 1e6), search_seeds=(5,), search_settings={"rounds": 3},
    )  # fmt: skip
    outcome, _, told = worked_off(study, tmp_path / "s")
    assert not outcome.failures
    (table,) = json.loads((tmp_path / "s" / "search.json").read_text())["tables"].values()
    assert table["flat-softmax"]["best"] == 0.1
    assert table["flat-softmax"]["mean_validation_hf"]["1e+06"] is None
    searched = [json.loads(f.read_text()) for f in (tmp_path / "s/search").rglob("result.json")]
    assert [one["config"]["rounds"] for one in searched] == [3]
    assert [one["config"]["rounds"] for one in outcome.values.values()] == [2]
    (problem,) = [line[1] for line in told if len(line) == 2 and line[1]]
    assert "absurdly large" in problem
    found = (tmp_path / "s/search.json").read_text()
    assert worked_off(study, tmp_path / "s")[1] == []  # nor is it tried once more
    assert (tmp_path / "s/search.json").read_text() == found
    with pytest.raises(StudyError, match="diverged at every candidate for lr; add lower"):
        worked_off(replace(study, candidates=(1e6,)), tmp_path / "other")


def test_the_search_for_imagenet_uses_its_own_sample_and_all_classes():
    study = preset("paper-zero-shot", ["imagenet"])
    config = study.search_config("imagenet", "flat-softmax", 43, "lr", 0.1, {})
    assert (config.sample_seed, config.zero_shot, config.alpha, config.lr) == (42, False, 0.0, 0.1)


# processes


def test_the_job_of_a_killed_process_is_done_by_another(tmp_path):
    with local_workers(2) as workers:
        jobs = [workers.submit(killed_once, str(tmp_path / "died"), n) for n in range(4)]
        assert [job.result() for job in jobs] == [0, 1, 2, 3]
        last = workers.submit(killed_once, str(tmp_path / "no folder" / "died"), 5)
        with pytest.raises(StudyError, match="its process was killed in each of 3 attempts"):
            last.result()


def test_processes_and_decoding_need_no_semaphores(tmp_path, monkeypatch):
    """As where /dev/shm is read-only: no semaphore can be made."""

    def refused(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refused)
    (tmp_path / "died").touch()
    with local_workers(1) as workers:
        assert workers.submit(killed_once, str(tmp_path / "died"), 7).result() == 7
    with _mapper(10_000, 2) as mapper:
        assert list(mapper(str, [1, 2])) == ["1", "2"]


def test_processes_end_at_once_with_an_exception(tmp_path):
    marker = tmp_path / "pid"
    with pytest.raises(KeyboardInterrupt), local_workers(1) as workers:
        workers.submit(long_sleep, str(marker))
        deadline = time.monotonic() + 60
        while not (marker.exists() and marker.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        raise KeyboardInterrupt
    number, deadline = int(marker.read_text()), time.monotonic() + 20
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{number}").exists()


@pytest.mark.dask
def test_a_dask_cluster_of_two_processes_runs_a_study(tmp_path, finished, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    from fedgrain.studies.executors import dask_workers

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    study = replace(SMALL, methods=("cond-softmax/paper",))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        dask_workers(cluster.scheduler_address) as executor,
    ):
        numbers = {executor.submit(process_number).result()}
        outcome = run_study(study, tmp_path / "s", executor, Watched())
    assert os.getpid() not in numbers
    assert not outcome.failures
    assert len(outcome.values) == 2
    here = finished[1]
    for name, values in outcome.values.items():
        assert untimed(values) == untimed(here.values[name])
    assert StudyFolder(tmp_path / "s").study.exists()


def test_dask_without_a_scheduler_is_one_sentence():
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    import dask

    from fedgrain.studies.executors import dask_workers

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(StudyError, match="no Dask scheduler answers at tcp://127"),
        dask_workers("tcp://127.0.0.1:9"),
    ):
        pass


def test_configs_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises((ConfigError, StudyError), match=r"alpha is 0\.8"):
        worked_off(replace(SMALL, alphas=(0.8,)), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_simulated_study_of_an_older_version_is_the_same_study() -> None:
    """It recorded how often a label must occur, which only inferred knowledge uses."""
    before = Study("s", settings={"min_count": 2, "partition": "iid", "knowledge": "relational",
                                  "clients": 10})  # fmt: skip
    assert before.complete() == Study("s").complete()
    inferred = {"partition": "manifest", "knowledge": "inferred", "min_count": 3}
    assert Study("s", settings=inferred).complete().settings["min_count"] == 3


def test_rounds_of_a_cosine_schedule_do_not_grow(tmp_path) -> None:
    cosine = replace(SMALL, methods=("flat-softmax/paper", "flat-softmax/paper+schedule=cosine"))
    (tmp_path / "study.toml").write_text(cosine.complete().toml())
    more = replace(cosine, settings={**SETTINGS, "rounds": 9}).complete()
    with pytest.raises(StudyError, match=r"rounds cannot grow, since .*-schedule-cosine-alpha"):
        check_folder(more, StudyFolder(tmp_path))
    own = replace(cosine, methods=("flat-softmax/paper",))  # the others' may
    (tmp_path / "study.toml").write_text(own.complete().toml())
    check_folder(more, StudyFolder(tmp_path))
