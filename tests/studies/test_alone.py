"""Is it better than alone? Each site of a manifest against all together, image by image."""

import io
import json
import re
import shutil
from concurrent.futures import Executor, Future
from contextlib import contextmanager, redirect_stdout
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import fedgrain
from fedgrain import Config
from fedgrain.checked_json import read_checked_json
from fedgrain.cli import main
from fedgrain.config.config_texts import differences, read_config
from fedgrain.errors import StudyError
from fedgrain.models.model_folder import load
from fedgrain.preparation.prepare import load_images, prepare
from fedgrain.report.study_page import study_page
from fedgrain.runs.evaluate import evaluate
from fedgrain.studies.image_scores import ImageScores
from fedgrain.studies.options import chosen_study
from fedgrain.studies.planned_runs import plan_runs
from fedgrain.studies.presets import preset
from fedgrain.studies.study import Study
from fedgrain.tables.alone import alone_rows
from fedgrain.tables.collect import Results, read_results
from fedgrain.tables.intervals import resampled_interval
from own_sites import SITES, write_sites

DOCS = Path(__file__).resolve().parents[2] / "docs"
METHOD = "flat-softmax/learned"


class Here(Executor):
    """Runs a job where it is submitted, and counts them."""

    jobs = 0

    def submit(self, fn, /, *args, **kwargs):
        Here.jobs += 1
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def here(jobs):
    yield Here()


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return write_sites(tmp_path_factory.mktemp("own") / "sites")


def typed(monkeypatch, capsys, *words):
    monkeypatch.setattr("fedgrain.studies.executors.local_workers", here)
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def answered(sites, tmp_path_factory):
    """The one command, as the page types it, on three sites."""
    out, monkeypatch = tmp_path_factory.mktemp("alone") / "alone", pytest.MonkeyPatch()
    monkeypatch.setattr("fedgrain.studies.executors.local_workers", here)
    words = ["study", "alone", "--data-root", sites, "--out", out, "--rounds", 3]
    words += ["--set", "lr=0.2", "--set", "batch=8"]  # the images' own size is found out
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main([str(word) for word in words]) == 0
    monkeypatch.undo()
    return out, words, printed.getvalue()


def test_one_command_answers_it_site_by_site_and_in_all(answered, capsys, monkeypatch):
    _, words, printed = answered
    assert printed.startswith(f"Better than alone? folder, {METHOD}\n")
    for site, images in zip(SITES, (16, 16, 8), strict=True):
        said = re.search(
            rf"Site {site}: alone (0\.\d\d|1\.00), together (0\.\d\d|1\.00) \([+-]\d\.\d\d, 95 % "
            rf"interval [+-]\d\.\d\d to [+-]\d\.\d\d\) on its own {images} test images",
            printed,
        )
        assert said, printed
    assert "on its own 16 test images, 8 of them named in full" in printed  # the volunteers'
    assert "alpha" not in printed
    before = Here.jobs
    code, printed, errors = typed(monkeypatch, capsys, *words, "--json")
    assert code == 0 and Here.jobs == before  # resumed: nothing was trained or tested again
    assert "tests:" not in errors
    rows = json.loads(printed)["alone"]
    named = [(row["site"], row["own_images"], row["images"]) for row in rows]
    assert named == [
        ("museum", True, 16), ("volunteers", True, 16), ("zoo", True, 8), (None, True, 40),
        ("museum", False, 40), ("volunteers", False, 40), ("zoo", False, 40), (None, False, 40),
    ]  # fmt: skip
    for row in rows:
        assert row["difference"] == pytest.approx(row["together"] - row["alone"])
        assert row["interval"][0] <= row["difference"] <= row["interval"][1]
        assert 0 <= row["pooled"] <= 1


def test_the_rows_are_what_the_models_score(answered, sites):
    out, *_ = answered
    rows = {(row.site, row.own_images): row for row in alone_rows(read_results(out))}
    data = load_images(Config(dataset="folder", data_root=str(sites), image_size=16))
    for number, site in enumerate(SITES):
        alone = load(out / "runs" / f"folder-flat-softmax-learned-client{number}-seed47")
        together = load(out / "runs" / "folder-flat-softmax-learned-seed47")
        own = data.subset(np.flatnonzero(data.clients == number))
        assert rows[site, True].alone == pytest.approx(evaluate(alone, own)["hf"])
        assert rows[site, True].together == pytest.approx(evaluate(together, own)["hf"])
        assert rows[site, False].alone == pytest.approx(evaluate(alone, data)["hf"])
    shares = [(rows[site, True].alone, rows[site, True].images) for site in SITES]
    assert rows[None, True].alone == pytest.approx(sum(a * n for a, n in shares) / 40)
    everyone = np.mean([rows[site, False].alone for site in SITES])
    assert rows[None, False].alone == pytest.approx(everyone)


def test_the_zoo_alone_knows_no_mammal(answered):
    rows = {(row.site, row.own_images): row for row in alone_rows(read_results(answered[0]))}
    assert rows["zoo", False].alone < rows["zoo", False].together
    assert rows["zoo", False].interval[0] > 0
    assert rows["zoo", False].sentence.endswith("better together.")


def test_the_report_and_the_table_show_it(answered, capsys, monkeypatch):
    out, *_ = answered
    page = study_page(out, images=False)
    block = page.blocks[0]
    assert (block.heading, len(block.views)) == ("Better than alone?", 1)
    assert "Site zoo: alone " in block.text and "bootstrap over test images" in block.text
    marks = block.views[0].figure["data"]
    assert [len(trace["x"]) for trace in marks] == [4, 4]
    assert len(block.views[0].sheet.rows) == 8
    assert "alpha" not in json.dumps([page.sentence, *(b.heading + b.text for b in page.blocks)])
    assert all(row[0].text != "alpha" for sheet in page.settings for row in sheet.rows)
    _, printed, _ = typed(monkeypatch, capsys, "table", out)
    assert "Better than alone?" in printed and "alpha" not in printed
    assert "museum (16)  volunteers (16)  zoo (8)" in printed
    assert (out / "figures" / "alone.png").stat().st_size > 1000


def test_a_run_that_goes_on_is_tested_again(answered, tmp_path, capsys, monkeypatch):
    out = Path(shutil.copytree(answered[0], tmp_path / "more"))
    words = list(answered[1])
    words[words.index("--out") + 1], words[words.index("--rounds") + 1] = out, 4
    before = {p.name: read_checked_json(p)["result"] for p in (out / "tested").iterdir()}
    code, _, errors = typed(monkeypatch, capsys, *words)
    assert code == 0 and "tests:" in errors
    after = {p.name: read_checked_json(p)["result"] for p in (out / "tested").iterdir()}
    assert before.keys() == after.keys() and all(before[name] != after[name] for name in after)


def test_alone_a_site_has_only_its_own_images_and_stops_by_its_own(sites):
    given = {"dataset": "folder", "data_root": str(sites), "image_size": 16}
    given |= {"partition": "manifest", "knowledge": "inferred"}
    together = prepare(Config(**given))
    for number in range(3):
        alone = prepare(Config(**given, only_client=number))
        (client,) = alone.federation.clients
        assert np.array_equal(
            client.train.indices, together.federation.clients[number].train.indices
        )
        deciding = alone.federation.validation.indices
        assert len(deciding) and set(alone.data.clients[deciding]) == {number}
        assert np.array_equal(alone.test, together.test)  # scored on everyone's images


def test_pooled_under_projection_keeps_who_wrote_a_label(sites):
    given = {"dataset": "folder", "data_root": str(sites), "image_size": 16}
    given |= {"partition": "manifest", "knowledge": "inferred", "supervision": "projection"}
    apart = prepare(Config(**given)).federation.clients
    (one,) = prepare(Config(**given, pooled=True)).federation.clients
    known = {
        (image, tuple(client.known[0]))
        for client in apart
        for image in client.train.indices.tolist()
    }
    found = zip(one.train.indices.tolist(), map(tuple, one.known[one.train.labellers]), strict=True)
    assert set(found) == known


def images(hf, sites=("a", "b")):
    count = len(hf)
    site = np.arange(count) % len(sites)
    return ImageScores(np.array(hf, float), site, np.ones(count, bool), sites)


def test_rows_by_hand():
    methods = ("flat-softmax/paper", "local-only:flat-softmax/paper")
    settings = {"partition": "manifest", "knowledge": "inferred"}
    study = Study("s", ("folder",), methods, seeds=(1, 2), settings=settings, sites=("a", "b"))
    together = {1: [images([1, 0.5, 1, 0.5])], 2: [images([1, 1, 1, 1])]}
    alone = {
        1: [images([0.5, 0, 0.5, 0]), images([0, 0.5, 0, 1])],
        2: [images([0.5, 0, 1, 0]), images([0, 1, 0, 1])],
    }
    cells = [("folder", name, None) for name in methods]
    results = Results(study, {}, 0, 0, dict(zip(cells, (together, alone), strict=True)))
    found = {(r.site, r.own_images): (r.alone, r.together) for r in alone_rows(results)}
    assert found == {
        ("a", True): (0.625, 1.0), ("b", True): (0.875, 0.75), (None, True): (0.75, 0.875),
        ("a", False): (0.3125, 0.875), ("b", False): (0.4375, 0.875), (None, False): (0.375, 0.875),
    }  # fmt: skip
    worse = next(r for r in alone_rows(results) if (r.site, r.own_images) == ("b", True))
    assert worse.better is None and "alone 0.88, together 0.75 (-0.12, " in worse.sentence
    assert worse.sentence.endswith("no clear difference.")


def test_the_interval_against_every_possible_resample():
    values = np.array([[0.0, 0.2, 0.2, -0.4, 1.0]])
    means = np.sort([np.mean(drawn) for drawn in product(values[0], repeat=5)])
    low, high = resampled_interval(values, resamples=20_000)
    assert low == pytest.approx(np.quantile(means, 0.025), abs=0.041)  # a step of one image
    assert high == pytest.approx(np.quantile(means, 0.975), abs=0.041)
    assert resampled_interval(values) == resampled_interval(values)
    assert resampled_interval(np.array([[0.5]])) is None


def test_three_seeds_widen_the_interval_by_their_own_chance():
    differences = np.array([[0.0], [0.1], [0.5]]) + np.zeros((3, 50))
    assert resampled_interval(differences[:2]) == (pytest.approx(0.05), pytest.approx(0.05))
    low, high = resampled_interval(differences)
    assert low < 0.1 and high > 0.3


def test_what_cannot_be_answered_is_said(sites, tmp_path, capsys, monkeypatch):
    nobody = write_sites(tmp_path / "nobody", train=2, test=1)
    rows = (nobody / "images.csv").read_text().splitlines()
    kept = [",".join(row.split(",")[i] for i in (0, 1, 3)) for row in rows]
    (nobody / "images.csv").write_text("\n".join(kept) + "\n")
    words = ("study", "alone", "--out", tmp_path / "out", "--set", "image_size=16", "--data-root")
    code, _, errors = typed(monkeypatch, capsys, *words, nobody)
    assert code == 2 and "names no clients" in errors and not (tmp_path / "out").exists()
    with pytest.raises(StudyError, match="nothing is simulated, so there is no alpha"):
        Study("s", alphas=(0.5,), settings={"knowledge": "inferred"})
    with pytest.raises(StudyError, match="'oracle' is the run at alpha 0"):
        Study("s", methods=("oracle",), settings={"knowledge": "inferred"})


def test_the_method_is_the_default_of_the_settings_and_can_be_chosen():
    given = {"partition": "manifest", "knowledge": "inferred"}
    default = Config(dataset="folder", **given).complete()
    assert f"{default.head}/{default.supervision}" == METHOD
    assert preset("alone").methods == (METHOD, f"local-only:{METHOD}", f"centralised:{METHOD}")
    chosen = preset("alone", methods=("flat-softmax/projection",)).methods
    assert chosen[1:] == (
        "local-only:flat-softmax/projection",
        "centralised:flat-softmax/projection",
    )
    two = (METHOD, f"local-only:{METHOD}")  # not pooled
    assert preset("alone", methods=two).methods == two


def test_the_comparison_of_the_page_parses_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_sites(tmp_path / "site", train=4, test=2)
    page = (DOCS / "own-data.md").read_text("utf-8")
    (toml,) = re.findall(r"`compare.toml`:\n\n```toml\n(.*?)```", page, flags=re.S)
    Path("compare.toml").write_text(toml)
    typed_there = re.findall(r"^fedgrain (study .*)$", page, flags=re.M)
    alone, compare = (line.split() for line in typed_there)
    assert alone[:2] == ["study", "alone"]
    small = ["--rounds", "1", "--seeds", "1", "--set", "image_size=16"]
    code, printed, errors = typed(monkeypatch, capsys, *compare, *small)
    assert code == 0, errors
    assert re.search(r"\rfolder-\S+-seed1: HF 0\.\d{3}\n", errors)  # as it ended
    assert "alpha" not in printed
    assert "HF by site (test images)" in printed
    assert re.search(r"^On folder, \S+ has the best HF, 0\.\d+", printed, flags=re.M)
    names = {path.name for path in Path("studies/compare/runs").iterdir()}
    assert len(names) == 3 and not any("alpha" in name for name in names)
    assert {p.stem for p in Path("studies/compare/figures").glob("*.png")} == {
        "hf_by_site", "training", "accuracy_per_depth", "operating_curve",
    }  # fmt: skip
    for svg in Path("studies/compare/figures").glob("*.svg"):
        assert "alpha" not in svg.read_text("utf-8"), svg
    code, listed, _ = typed(monkeypatch, capsys, *alone, "--dry-run", *small)
    assert code == 0 and len(listed.split()) == 5  # together, three sites alone, pooled


def test_own_data_has_no_axis_of_alphas():
    study = Study(
        "s", methods=("cond-softmax/paper",), seeds=(1,), settings={"knowledge": "inferred"}
    )
    (planned,) = plan_runs(study, {})
    assert planned.name == "glyphs-cond-softmax-paper-seed1"
    assert study.complete().alphas is None and "alphas" not in study.complete().toml()


def test_like_a_run_takes_its_data_method_and_settings(sites, tmp_path, capsys):
    config = Config(
        dataset="folder", data_root=str(sites), head="flat-softmax", rounds=1, lr=0.2, batch=8
    )
    fedgrain.run(config, tmp_path / "run", workers=1)
    study = chosen_study("alone", {}, ["lr=0.1"], like=tmp_path / "run")
    method = "flat-softmax/learned"
    assert study.methods == (method, f"local-only:{method}", f"centralised:{method}")
    together = study.configs("folder", method, None, 47)[0]
    begun = read_config(tmp_path / "run" / "config.toml")
    assert together.lr == 0.1 and begun.lr == 0.2  # an option changes what it names
    assert differences(together, begun) == ["lr (0.1 and 0.2)"]
    assert main(["study", "alone", "--like", str(tmp_path / "nothing"), "--dry-run"]) == 2
    assert str(tmp_path / "nothing") in capsys.readouterr().err
