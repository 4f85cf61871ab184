"""The frozen protocol: what it names, what it refuses, and what a result must hold."""

import json
import zipfile
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from fedgrain.benchmark import (
    check_frozen,
    read_protocol,
)
from fedgrain.benchmark.frozen import frozen
from fedgrain.benchmark.leaderboard import paired_p
from fedgrain.checksums import digest
from fedgrain.cli import main
from fedgrain.errors import BenchmarkError

HOME = files("fedgrain.benchmark") / "v1"


@pytest.fixture(scope="module")
def seed47():
    """What the protocol's first seed gives here."""
    return frozen(read_protocol("v1").track("glyphs"), 0.9, 47)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of rdflib
def test_every_file_of_the_protocol_has_its_hash_and_croissant_is_valid():
    import mlcroissant

    rules = read_protocol("v1")
    for name in rules.files:
        assert rules.text(name)
    described = mlcroissant.Dataset(str(HOME / "croissant.json"))  # what `validate` does
    assert not described.metadata.ctx.issues.errors
    hashes = {file.name: file.sha256 for file in described.metadata.distribution}
    hashed = {n.replace("/", "-"): h for n, h in rules.files.items()} | {
        "protocol.toml": rules.sha256
    }
    assert hashes == hashed
    assert described.metadata.url == f"urn:sha256:{rules.sha256}"
    split = next(iter(described.records("splits-glyphs-seed47.txt-lines")))
    assert rules.text("splits/glyphs-seed47.txt").startswith(
        split["splits-glyphs-seed47.txt-lines/signs"].decode()
    )


def test_the_protocols_split_and_knowledge_come_out_here(seed47):
    rules = read_protocol("v1")
    assert seed47.data_sha256 == rules.data["glyphs"]["sha256"]
    assert seed47.prepared.data.fingerprint == rules.data["glyphs"]["fingerprint"]
    assert seed47.split == rules.text("splits/glyphs-seed47.txt")
    assert seed47.knowledge == rules.text("knowledge/glyphs-alpha0.9-seed47.json")
    signs = seed47.split.replace("\n", "")
    assert (len(signs), signs.count("t"), signs.count("v")) == (6000, 1000, 992)


@pytest.mark.parametrize("part", ["data_sha256", "split", "knowledge"])
def test_a_tampered_split_is_refused(monkeypatch, seed47, part):
    """Whatever is changed of one image or client: the text, or the data it is made from."""
    text = getattr(seed47, part)
    changed = replace(seed47, **{part: text[:-3] + ("1" if text[-3] != "1" else "2") + text[-2:]})
    monkeypatch.setattr("fedgrain.benchmark.frozen.frozen", lambda *_: changed)
    with pytest.raises(BenchmarkError, match=r"are not those of benchmark v1|is no result of ben"):
        check_frozen(read_protocol("v1"), read_protocol("v1").track("glyphs"))


def test_a_tampered_file_of_the_protocol_is_refused():
    rules = read_protocol("v1")
    name = "splits/glyphs-seed47.txt"
    other = replace(rules, files={**rules.files, name: digest([b"another split"])})
    with pytest.raises(
        BenchmarkError, match=r"seed47\.txt of benchmark v1 has changed: its SHA-256"
    ):
        other.text(name)


def test_a_method_may_not_change_what_the_track_fixes():
    track = read_protocol("v1").track("glyphs")
    assert track.study(["flat-softmax/paper+lr=0.05"]).seeds == (47, 48, 49)
    with pytest.raises(BenchmarkError, match="sets clients, which benchmark v1 fixes; a method m"):
        track.study(["flat-softmax/paper+clients=2"])
    with pytest.raises(BenchmarkError, match="no track 'cifar'; choose glyphs or trunk or scratch"):
        read_protocol("v1").track("cifar")


def test_the_p_value_is_that_of_a_paired_t_test():
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(3)
    for count in (2, 3, 7):
        one, other = random.normal(size=(2, count))
        expected = stats.ttest_rel(one, other).pvalue
        assert paired_p(list(one - other)) == pytest.approx(expected, abs=1e-9)
    assert paired_p([0.1]) is None
    assert paired_p([0.0, 0.0]) == 1.0


def test_no_result_and_no_study_are_one_sentence(tmp_path, capsys):
    assert main(["benchmark", "submit", str(tmp_path)]) == 2
    assert "no result here; make one with fedgrain benchmark run" in capsys.readouterr().err
    assert main(["benchmark", "leaderboard", str(tmp_path)]) == 2
    assert "no packed results (*.zip) here" in capsys.readouterr().err
    assert main(["benchmark", "run", "v1", "--method", "flat-softmax/paper+seed=1"]) == 2
    assert "seed is decided by the grid" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["own_parts:Oak", "own_parts:Oak:flat-softmax", "oak:Head"])
def test_code_that_is_not_there_is_refused_before_anything_is_written(part, tmp_path, capsys):
    """A method cannot be taken out of a folder again: a slip of the pen would fail for ever."""
    out = tmp_path / "out"
    assert main(["benchmark", "run", "v1", "--method", f"{part}/paper", "--out", str(out)]) == 2
    found = capsys.readouterr().err
    assert "has no callable 'Oak'" in found or "cannot import 'oak'" in found
    assert not out.exists()


def test_packing_is_whole_and_says_what_is_unfinished(tmp_path, capsys):
    study = read_protocol("v1").track("glyphs").study(["flat-softmax/paper"]).complete()
    (tmp_path / "study.toml").write_text(study.toml())
    assert main(["benchmark", "submit", str(tmp_path)]) == 2
    found = capsys.readouterr().err
    assert "not finished; run `fedgrain benchmark run v1 --track glyphs" in found
    assert f"--method flat-softmax/paper --out {tmp_path}` first" in found
    assert not (tmp_path / "submissions").exists()


def test_ctrl_c_says_how_to_go_on(monkeypatch, tmp_path, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedgrain.studies.execute.run_study", interrupted)
    monkeypatch.setattr("fedgrain.benchmark.check_frozen", lambda *_: None)
    monkeypatch.setattr("fedgrain.arithmetic.prefer_portable", lambda: None)
    given = ["--method", "flat-softmax/paper", "--out", str(tmp_path), "--jobs", "1"]
    assert main(["benchmark", "run", "v1", *given]) == 130
    assert "the same command resumes from the last complete rounds" in capsys.readouterr().err


def test_a_method_is_run_packed_and_checked(monkeypatch, tmp_path, capsys):
    """One seed and one round of the glyphs, by an algorithm and a head of one's own."""
    rules = read_protocol("v1")
    track = replace(rules.track("glyphs"), seeds=(47,))
    track = replace(track, settings={**track.settings, "rounds": 1})
    short = replace(rules, tracks={"glyphs": track})
    for module in ("protocol", "submission"):
        monkeypatch.setattr(f"fedgrain.benchmark.{module}.read_protocol", lambda _: short)
    monkeypatch.setattr("fedgrain.arithmetic.prefer_portable", lambda: None)
    folder, method = tmp_path / "run", "own_parts:LastWeights:own_parts:OwnHead/paper"
    options = ["--track", "glyphs", "--out", str(folder), "--jobs", "1"]
    assert main(["benchmark", "run", "v1", "--method", method, *options]) == 0
    assert method in capsys.readouterr().out
    assert main(["benchmark", "run", "v1", "--method", "flat-softmax/paper", *options]) == 2
    assert "its study names 'own_parts:LastWeights', code that wou" in capsys.readouterr().err
    assert main(["benchmark", "submit", str(folder)]) == 2
    assert "its head is 'own_parts:OwnHead', code that would run" in capsys.readouterr().err
    assert main(["benchmark", "submit", str(folder), "--method", method]) == 0
    assert capsys.readouterr().out.startswith(f"packed {method}: ")
    assert main(["benchmark", "submit", str(folder), "--trust-code", "--json"]) == 0
    (path,) = json.loads(capsys.readouterr().out)["packed"]
    assert main(["benchmark", "check", path]) == 0
    assert f"follows benchmark v1, track glyphs: {method}, alpha 0.9" in capsys.readouterr().out
    with zipfile.ZipFile(path) as archive:
        assert all(not name.endswith(".safetensors") for name in archive.namelist())
    (metrics,) = folder.glob("runs/*/metrics.jsonl")
    metrics.write_bytes(metrics.read_bytes().replace(b"1", b"2", 1))
    assert main(["benchmark", "submit", str(folder), "--trust-code"]) == 2
    assert "metrics.jsonl: damaged" in capsys.readouterr().err
