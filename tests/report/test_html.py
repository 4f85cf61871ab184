"""What stands in the report, read back from the file; a browser opens it in test_browser.py."""

import json
import re
import shlex
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects
import pytest

import hand_made_study
from fedgrain import Config
from fedgrain.checked_json import read_checked_json
from fedgrain.cli import main
from fedgrain.errors import ReportError, RunError
from fedgrain.pages.page_tables import percent, setting
from fedgrain.pictures.interactive_plots import MOST_POINTS, over_alpha, thinned
from fedgrain.pictures.map_plots import knowledge_map
from fedgrain.report.html import page_of, render, script_hash, write_report
from fedgrain.report.run_results import knowledge_name, run_sentence
from fedgrain.scoring.metrics import cut_back
from fedgrain.sections.branches import branches_of, wrong_at
from fedgrain.sections.model_inspection import Sites
from fedgrain.tables.intervals import estimate
from fedgrain.taxonomy import Taxonomy
from reported_runs import BREAKS_OUT, FOLDER, SCRIPT
from small_federation import EVERYTHING, NODE, TREE, known


class Reading(HTMLParser):
    """The elements of a page as a browser would find them."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.images, self.links, self.text, self.open = [], [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.open = (tag, found)
        if tag == "script":
            self.scripts.append([found, ""])
        elif tag == "img":
            self.images.append(found)
        self.links += [v for n, v in found.items() if n in ("src", "href", "srcset", "action")]

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open and self.open[0] == "script":
            self.scripts[-1][1] += data
        elif not (self.open and self.open[0] == "style"):
            self.text.append(data)

    @property
    def figures(self):
        return {
            about["data-for"]: json.loads(text)
            for about, text in self.scripts
            if "data-for" in about
        }


@pytest.fixture(scope="module")
def run_text(trained):
    return write_report(trained, trust_code=True).read_text("utf-8")


@pytest.fixture(scope="module")
def study_text(study_folder):
    return write_report(study_folder, trust_code=True).read_text("utf-8")


@pytest.mark.parametrize("which", ["run_text", "study_text"])
def test_self_contained_with_two_scripts_of_ours_alone(which, request):
    text = request.getfixturevalue(which)
    page = Reading(text)
    running = [content for about, content in page.scripts if not about.get("type")]
    assert len(running) == 2
    assert running[0].count("plotly.js v") == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy == (
        "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src "
        + " ".join(map(script_hash, running))
    )
    assert page.links
    assert all(link.startswith(("data:", "#")) for link in page.links)
    assert "url(" not in text.split("<script>")[0]


@pytest.mark.parametrize("which", ["run_text", "study_text"])
def test_names_with_markup_are_text(which, request):
    page = Reading(request.getfixturevalue(which))
    shown = "".join(page.text)
    assert SCRIPT in shown
    assert BREAKS_OUT in shown
    assert all("onerror" not in image for image in page.images)
    labels = page.figures["sunburst"]["data"][0]["labels"]
    assert "&lt;script&gt;document.title='run'&lt;/script&gt;" in labels  # plotly reads markup
    assert not any("<" in label for label in labels)


def test_folder_with_markup_in_its_name(run_text):
    assert FOLDER in "".join(Reading(run_text).text)


@pytest.mark.parametrize("which", ["run_text", "study_text"])
def test_plotly_accepts_every_figure(which, request):
    figures = Reading(request.getfixturevalue(which)).figures
    assert {"training-1", "knowledge-1", "sunburst"} <= set(figures)
    for figure in figures.values():
        plotly.graph_objects.Figure(data=figure["data"], layout=figure["layout"])


def test_hover_shows_intervals_and_runs(study_folder, study_text):
    traces = Reading(study_text).figures["over-alpha-1"]["data"]
    assert [trace["name"] for trace in traces] == ["flat-softmax/projection", "flat-softmax/paper"]
    trace = traces[1]
    assert trace["x"] == [0.0, 0.5]
    values = [0.75 - 0.4 * 0.5 + 0.003 * (seed % 5) for seed in (47, 48, 49)]
    assert trace["y"][1] == pytest.approx(np.mean(values))
    interval = 4.302652729911275 * np.std(values, ddof=1) / np.sqrt(3)
    assert trace["error_y"]["array"][1] == pytest.approx(interval)
    told = trace["text"][1]
    assert f"± {interval:.4f}" in told
    for seed, value in zip((47, 48, 49), values, strict=True):
        assert f"seed {seed}: {value:.4f}" in told


def test_lines_over_alpha_go_from_left_to_right(tmp_path):
    """Whatever the order of the study's alphas."""
    scores = {("flat-softmax/paper", alpha): [0.5, 0.6, 0.7] for alpha in (0.9, 0.0, 0.6)}
    hand_made_study.write_study(tmp_path, scores)
    (trace,) = Reading(render(page_of(tmp_path, images=False, trust_code=True))).figures[
        "over-alpha-1"
    ]["data"]
    assert trace["x"] == [0.0, 0.6, 0.9]


def test_a_legend_has_room_for_all_its_names():
    for letters, rows in ((10, 15), (60, 30)):
        names = [f"{number:02}".ljust(letters, "x") for number in range(30)]
        points = {name: [(0.9, estimate([0.5]), {47: 0.5})] for name in names}
        layout = over_alpha(points, "HF")["layout"]
        assert layout["legend"]["maxheight"] >= 21 * rows
        assert layout["height"] - layout["legend"]["maxheight"] >= 350


def test_accuracy_of_the_root_and_the_classes(trained):
    page = page_of(trained, images=True, trust_code=True)
    result = read_checked_json(trained / "result.json")
    colours = page.close.sunburst["colourings"][0]["colors"]
    assert colours[0] == 1.0  # everything lies under the root
    trace = page.close.sunburst["data"][0]
    inner = set(trace["parents"])
    leaves = [place for place, node in enumerate(trace["ids"]) if node not in inner]
    mean = np.mean([colours[place] for place in leaves])  # as many images of every class
    assert mean == pytest.approx(result["accuracy"], abs=1e-4)
    assert page.close.tested == f"{result['samples']} test images"


def test_sentence_of_a_run_is_made_from_its_numbers(trained):
    page, result = (
        page_of(trained, images=False, trust_code=True),
        read_checked_json(trained / "result.json"),
    )
    assert f"HF of {result['hf']:.3f} on the test images" in page.sentence
    assert f"{100 * result['accuracy']:.0f}% of them" in page.sentence
    assert "its weakest branch is" in page.sentence


def test_sentence_says_of_which_images_the_exact_class_is_known(trained):
    result = read_checked_json(trained / "result.json")
    config = Config(alpha=0.5).complete()
    for labels, said in (
        ({"samples": 9, "leaf_samples": 4}, "the 4 that are labelled in full"),
        ({"samples": 9, "leaf_samples": 9}, "them"),
        (None, "those labelled in full"),  # of an older run
    ):
        told = run_sentence(config, {**result, "tested_labels": labels}, None)
        assert f"% of {said}." in told


def test_sentence_without_an_alpha():
    result = {"hf": None, "validation_hf": 0.5}
    config = Config(knowledge="inferred", head="flat-softmax").complete()
    told = run_sentence(config, result, None)
    assert told == (
        "On glyphs with knowledge inferred from labels, flat-softmax/learned ends with a "
        "validation HF 0.500."
    )
    counts = {"samples": 10, "hf": 0.5, "leaf_samples": 2, "leaf_hf": 0.25}
    told = run_sentence(config, {**result, "validation": counts}, None)
    assert told.endswith("0.250 over 2 leaf labels (20% of 10), 0.500 over all, cut back.")
    assert knowledge_name(Config(knowledge="sites/a.json")) == "knowledge of a.json"


def test_images_only_where_wanted(trained, run_text, tmp_path):
    pictures = [image["src"] for image in Reading(run_text).images]
    assert 0 < len(pictures) <= 20 + 12  # of wrong branches, and of labels that look wrong
    assert all(picture.startswith("data:image/png;base64,") for picture in pictures)
    out = write_report(trained, trust_code=True, images=False, out=tmp_path / "bare.html")
    text = out.read_text("utf-8")
    page = Reading(text)
    assert page.images == []
    assert page.links == ["data:,", "#glossary"]  # the icon: none
    assert "data:image" not in json.dumps(page.figures)
    assert "Branches, the worst first" in text


def test_every_setting_and_how_to_redo_it(trained, run_text, study_folder, study_text):
    shown = "".join(Reading(run_text).text)
    again = ["fedgrain", "run", str(trained / "config.toml"), "--out", f"again/{FOLDER}"]
    assert f"cd {Path.cwd()} && {shlex.join(again)} --trust-code" in shown
    assert (trained / "config.toml").read_text() in shown
    shown = "".join(Reading(study_text).text)
    assert (study_folder / "study.toml").read_text() in shown
    for place in (study_folder / "runs").iterdir():
        assert place.name in shown


def test_branches_by_hand():
    names = ["a1", "a1", "a2", "a3", "b1", "b2", "c"]
    found = ["a1", "a2", "a2", "b1", "b2", "b2", "c"]
    truth = np.array([NODE[n] for n in names])
    predicted = np.array([NODE[n] for n in found])
    branches = {TREE.ids[b.node]: (b.arrived, b.right) for b in branches_of(truth, predicted, TREE)}
    assert branches == {"r": (7, 6), "a": (3, 2), "b": (2, 1)}
    order = [TREE.ids[b.node] for b in branches_of(truth, predicted, TREE)]
    assert order == ["b", "a", "r"]
    assert wrong_at(NODE["a"], truth, predicted, TREE).tolist() == [1]
    coarse = np.array([NODE["a"]])
    cut = cut_back(coarse, np.array([NODE["a2"]]), TREE)
    assert {TREE.ids[b.node] for b in branches_of(coarse, cut, TREE)} == {"r"}


def test_depth_of_the_labels_a_client_writes():
    sites = Sites(("all", "some"), np.stack([EVERYTHING, known("a", "a1", "c")]))
    leaves = [TREE.ids[leaf] for leaf in TREE.leaves]
    depths = [dict(zip(leaves, row, strict=True)) for row in sites.label_depths(TREE).tolist()]
    assert depths[0] == {"a1": 2, "a2": 2, "a3": 2, "b1": 2, "b2": 2, "c": 1}
    assert depths[1] == {"a1": 2, "a2": 1, "a3": 1, "b1": 0, "b2": 0, "c": 1}


def test_two_classes_of_one_name_stay_two():
    tree = Taxonomy.from_edges(
        [("r", "a"), ("r", "b"), ("r", "c")], {"a": "crane", "b": "crane", "c": "kite"}
    )
    figure = knowledge_map(tree, ["one"], np.array([[1, 0, 1]]), tree.leaves.tolist())
    assert figure["data"][0]["x"] == ["crane (a)", "crane (b)", "kite"]
    assert figure["data"][0]["z"] == [[1.0, 0.0, 1.0]]


def test_knowledge_of_the_run_is_shown(trained):
    view = next(
        b for b in page_of(trained, images=False, trust_code=True).blocks if b.key == "knowledge"
    ).views[0]
    shares = [row[2].key for row in view.sheet.rows]
    assert shares == [0.5] * 4  # alpha 0.5: every client knows half of the classes


def test_300_runs_stay_small_and_quick(large_study_folder, study_text):
    began = time.perf_counter()
    text = write_report(large_study_folder, trust_code=True).read_text("utf-8")
    took = time.perf_counter() - began
    assert len(list((large_study_folder / "runs").iterdir())) == 300
    assert len(text) - len(study_text) < 1_000_000
    assert took < 30
    points = [len(t["x"]) for t in Reading(text).figures["training-1"]["data"]]
    assert points == [100] * 5


def test_thinned_keeps_first_and_last():
    assert thinned(3) == [0, 1, 2]
    kept = thinned(1001)
    assert (len(kept), kept[0], kept[-1]) == (MOST_POINTS, 0, 1000)
    assert kept == sorted(set(kept))


def test_without_models_or_images_the_rest_is_there(tmp_path):
    hand_made_study.write_study(tmp_path)
    page = page_of(tmp_path, images=True, trust_code=True)
    assert page.close is None
    assert "not a model of this version of fedgrain" in page.notes[0]
    assert [block.key for block in page.blocks] == ["over-alpha", "training"]
    assert "0.640 ± 0.066" in render(page)


def test_unfinished_study_says_so(study_folder, tmp_path):
    folder = tmp_path / "open"
    shutil.copytree(study_folder, folder)
    for place in (folder / "runs").iterdir():
        if place.name.endswith("seed49"):
            (place / "result.json").unlink()
    page = page_of(folder, images=False, trust_code=True)
    assert page.notes == ("4 cells of the grid have no result yet.",)
    status = [row[-1].text for row in page.settings[0].rows]
    assert sorted(set(status)) == ["finished", "open"]
    assert status.count("open") == 4


def test_folders_with_nothing_to_report(trained, tmp_path):
    with pytest.raises(ReportError, match="neither a run nor a study"):
        write_report(tmp_path)
    shutil.copy(trained / "config.toml", tmp_path)
    with pytest.raises(RunError, match="not finished; go on with: fedgrain run"):
        write_report(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_run_that_goes_on_has_a_page_of_its_rounds(trained, tmp_path, monkeypatch, capsys):
    for name in ("config.toml", "environment.json", "metrics.jsonl"):
        shutil.copy(trained / name, tmp_path)
    page = page_of(tmp_path, images=False, trust_code=True)
    assert page.sentence.startswith("This run is not finished: ")
    assert {block.key for block in page.blocks} == {"training", "movement"}
    monkeypatch.setattr("time.sleep", lambda _: shutil.copy(trained / "result.json", tmp_path))
    assert main(["report", str(tmp_path), "--follow", "--no-images", "--trust-code"]) == 0
    told = capsys.readouterr()
    assert "This run is not finished" in told.err and "report: " in told.out  # then the whole


def test_entries():
    assert percent(None).text == percent(float("nan")).text == "–"
    assert percent(0.456).text == "46%"
    assert setting(0.0001).text == "0.0001"
