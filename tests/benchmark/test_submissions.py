"""Packed results: the committed ones follow the protocol, and a changed one is refused."""

import json
import math
import zipfile
from pathlib import Path

import pytest

from fedgrain.benchmark import (
    check_predictions,
    leaderboard_tables,
    read_protocol,
    read_submission,
)
from fedgrain.benchmark.frozen import frozen
from fedgrain.checked_json import write_checked_json
from fedgrain.cli import main
from fedgrain.errors import BenchmarkError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/benchmark/v1"


@pytest.fixture(scope="module")
def seed47():
    """What the protocol's first seed gives here."""
    return frozen(read_protocol("v1").track("glyphs"), 0.9, 47)


@pytest.fixture(scope="module")
def result() -> Path:
    """The committed result of a method on the glyphs."""
    return RESULTS / "v1-glyphs-flat-softmax-projection.zip"


def rezipped(path: Path, out: Path, **changed: bytes | None) -> Path:
    """Copy a packed result with other files in it; None leaves one out."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    for end, raw in changed.items():
        names = [name for name in content if name.endswith(end.replace("__", "."))]
        for name in names[:1] or [end]:
            content[name] = raw
    with zipfile.ZipFile(out, "w") as archive:
        for name, raw in content.items():
            if raw is not None:
                archive.writestr(name, raw)
    return out


def test_the_committed_results_follow_the_protocol(result):
    for path in sorted(RESULTS.glob("*.zip")):
        found = read_submission(path)
        assert found.track.name == path.name.split("-")[1]
        assert found.portable
    submission = read_submission(result)
    assert submission.method == "flat-softmax/projection"
    assert list(submission.by_seed(0.9)) == [47, 48, 49]


def test_scores_that_are_not_those_of_the_predictions_are_refused(result, seed47, tmp_path):
    """All seeds are tested on the same images, so one seed's split can score them all."""
    prepared = dict.fromkeys((47, 48, 49), seed47.prepared)
    assert check_predictions(result, prepared).method == "flat-softmax/projection"
    with zipfile.ZipFile(result) as archive:
        name = next(n for n in archive.namelist() if n.endswith("predictions.txt"))
        lines = archive.read(name).decode().splitlines()
    lines[0] = next(line for line in lines if line != lines[0])
    other = rezipped(result, tmp_path / "a.zip", predictions__txt="\n".join(lines).encode())
    with pytest.raises(BenchmarkError, match=r"says hf 0\.\d+, but its predictions have 0\.\d+"):
        check_predictions(other, prepared)
    short = rezipped(result, tmp_path / "b.zip", predictions__txt="\n".join(lines[1:]).encode())
    with pytest.raises(BenchmarkError, match="has 999 predictions for 1000 test images"):
        check_predictions(short, prepared)


def test_predictions_that_are_no_leaves_or_no_text_are_refused(result, seed47, tmp_path):
    prepared = dict.fromkeys((47, 48, 49), seed47.prepared)
    tree = seed47.prepared.federation.taxonomy
    with zipfile.ZipFile(result) as archive:
        name = next(n for n in archive.namelist() if n.endswith("predictions.txt"))
        lines = archive.read(name).decode().splitlines()
    inner = tree.ids[tree.parents[tree.index(lines[2])]]
    lines[2] = lines[5] = inner
    path = rezipped(result, tmp_path / "a.zip", predictions__txt="\n".join(lines).encode())
    with pytest.raises(BenchmarkError, match=rf"predicts '{inner}' in line 3, which is an inner n"):
        check_predictions(path, prepared)
    path = rezipped(result, tmp_path / "b.zip", predictions__txt=b"\xff\xfe")
    with pytest.raises(BenchmarkError, match=r"seed47/predictions\.txt is not UTF-8; pack the"):
        check_predictions(path, prepared)


def test_a_result_without_a_score_or_a_cost_is_one_sentence(result, tmp_path, capsys):
    """Also where the checksum was made anew: what is no number would spoil the leaderboard."""
    with zipfile.ZipFile(result) as archive:
        name = next(n for n in archive.namelist() if n.endswith("result.json"))
        told = json.loads(archive.read(name))
    del told["sha256"]
    for key, value in {
        "core_seconds": "x", "bytes_sent": -1, "hf": None, "accuracy": math.nan, "metrics": None
    }.items():  # fmt: skip
        write_checked_json(tmp_path / "x", {**told, key: value})
        path = rezipped(result, tmp_path / "a.zip", result__json=(tmp_path / "x").read_bytes())
        assert main(["benchmark", "check", str(path)]) == 2
        found = capsys.readouterr().err
        assert f"{key} is " in found and "seed47" in found and len(found.splitlines()) == 1


def test_a_result_in_native_arithmetic_is_marked(result, tmp_path, capsys):
    with zipfile.ZipFile(result) as archive:
        name = next(n for n in archive.namelist() if n.endswith("environment.json"))
        told = json.loads(archive.read(name))
    del told["sha256"]
    write_checked_json(tmp_path / "x", {**told, "arithmetic": "native"})
    path = rezipped(result, tmp_path / "a.zip", environment__json=(tmp_path / "x").read_bytes())
    assert main(["benchmark", "leaderboard", str(path)]) == 0
    assert "flat-softmax/projection (native arithmetic)" in capsys.readouterr().out
    assert main(["benchmark", "check", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    assert not json.loads(printed.out)["checked"][0]["portable"]
    assert "not in portable arithmetic" in printed.err


def test_a_packed_result_that_was_changed_is_one_sentence(result, tmp_path, capsys):
    with zipfile.ZipFile(result) as archive:
        name = next(n for n in archive.namelist() if n.endswith("result.json"))
        scores = archive.read(name)
        about = json.loads(archive.read("submission.json"))
    cases = {
        "does not match its checksum": {
            "result__json": scores.replace(b'"hf": 0.', b'"hf": 0.9', 1)
        },
        "lacks ": {"config__toml": None},
        "holds a stranger, ../../escape": {"../../escape": b"x"},
        "submission.json is missing or damaged": {"submission.json": b"[1]"},
        "packed under another text": {
            "submission.json": json.dumps({**about, "protocol": "0" * 64}).encode()
        },
        "there is no benchmark 'v9'": {
            "submission.json": json.dumps({**about, "version": "v9"}).encode()
        },
        "which benchmark v1 fixes": {
            "submission.json": json.dumps(
                {**about, "method": "flat-softmax/paper+rounds=50"}
            ).encode()
        },
    }
    for number, (text, changed) in enumerate(cases.items()):
        path = rezipped(result, tmp_path / f"{number}.zip", **changed)
        assert main(["benchmark", "leaderboard", str(path)]) == 2
        assert text in capsys.readouterr().err
    (tmp_path / "torn.zip").write_bytes(result.read_bytes()[:5000])
    assert main(["benchmark", "leaderboard", str(tmp_path / "torn.zip")]) == 2
    assert "not a packed result" in capsys.readouterr().err
    assert not (tmp_path.parent.parent / "escape").exists()


def test_rounds_that_are_not_those_of_the_result_are_refused(result, tmp_path, capsys):
    path = rezipped(result, tmp_path / "a.zip", metrics__jsonl=b"")
    assert main(["benchmark", "check", str(path)]) == 2
    assert "seed47/metrics.jsonl: some of its 10 rounds are missing" in capsys.readouterr().err


def test_a_strange_checksum_of_the_settings_is_one_sentence(result, tmp_path, capsys):
    with zipfile.ZipFile(result) as archive:
        name = next(n for n in archive.namelist() if n.endswith("environment.json"))
        told = json.loads(archive.read(name))
    del told["sha256"]
    write_checked_json(tmp_path / "x", {**told, "config_sha256": 5})
    path = rezipped(result, tmp_path / "a.zip", environment__json=(tmp_path / "x").read_bytes())
    assert main(["benchmark", "leaderboard", str(path)]) == 2
    assert "seed47/config.toml: changed since the run started" in capsys.readouterr().err


def test_what_is_wrong_inside_a_packed_result_comes_with_its_name(result, tmp_path, capsys):
    with zipfile.ZipFile(result) as archive:
        about = json.loads(archive.read("submission.json"))
    for key, value in {"method": "nonsense", "track": "nope", "version": "v9"}.items():
        changed = {"submission.json": json.dumps({**about, key: value}).encode()}
        path = rezipped(result, tmp_path / "a.zip", **changed)
        assert main(["benchmark", "leaderboard", str(path)]) == 2
        assert f"error: {path}: " in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_in_the_zip_twice_is_refused(result, tmp_path, capsys):
    path = tmp_path / "a.zip"
    path.write_bytes(result.read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        name = archive.namelist()[0]
        archive.writestr(name, archive.read(name))
    assert main(["benchmark", "check", str(path)]) == 2
    assert f"{path}: not a packed result ({name} is in it twice)" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["deflated", "bzip2", "lzma", "password"])
def test_a_zip_that_cannot_be_unpacked_is_one_sentence(result, tmp_path, capsys, method):
    kinds = {"bzip2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA}
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", kinds.get(method, zipfile.ZIP_DEFLATED)) as archive:
        archive.writestr("submission.json", bytes(range(256)) * 40)
    raw = bytearray(path.read_bytes())
    if method == "password":
        for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            raw[raw.index(header) + flags] |= 1
    else:
        for place in range(60, 160):
            raw[place] ^= 0x5A
    path.write_bytes(raw)
    assert main(["benchmark", "check", str(path)]) == 2
    found = capsys.readouterr().err
    assert f"{path}: not a packed result (" in found and len(found.splitlines()) == 1


def test_the_leaderboard_on_the_docs_page_is_that_of_the_committed_results(tmp_path, capsys):
    assert main(["benchmark", "leaderboard", str(RESULTS), "--format", "markdown",
                 "--out", str(tmp_path / "page.html")]) == 0  # fmt: skip
    board = capsys.readouterr().out
    assert board.strip() in (ROOT / "docs/benchmark.md").read_text()
    page = (tmp_path / "page.html").read_text()
    assert "glyphs, alpha 0.9 (benchmark v1): flat-softmax/projection+" in page
    assert "(bound) is first" not in page
    for table in leaderboard_tables([RESULTS]):
        means = [cells[0].mean for _, cells in table.rows]
        assert means == sorted(means, reverse=True)
        for _, cells in table.rows:
            assert cells[4].mean > 0 < cells[5].mean  # core-hours, bytes
