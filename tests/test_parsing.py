"""Hostile JSON and TOML: one sentence from every reader, whatever is in the file."""

import json
from pathlib import Path

import pytest

from fedgrain.checked_json import read_checked_json
from fedgrain.cli import main
from fedgrain.config.config_texts import read_config, setting_of
from fedgrain.deployment.app import App, app_privacy
from fedgrain.deployment.server_settings import site_names
from fedgrain.errors import FedgrainError
from fedgrain.knowledge import knowledge_file
from fedgrain.parsing import MAX_DEPTH, parse_json, parse_toml
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.study_file import read_study
from fedgrain.studies.study_folder import StudyFolder
from fedgrain.taxonomy import read_json as read_taxonomy

DEEP = 100_000
HOSTILE_JSON = {
    "lists": "[" * DEEP + "]" * DEEP,
    "objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "not so deep": "[" * 500 + "]" * 500,
    "unclosed": "[" * DEEP,
    "digits": '{"clients": ' + "9" * 5000 + "}",
    "more digits than a float holds": '{"rounds": ' + "9" * 400 + "}",
    "too large for 64 bits": '{"rounds": 9223372036854775808}',
    "surrogate": '{"format": "\\ud800"}',
    "surrogate in a key": '{"\\udfff": 1}',
    "nothing": "",
    "a NUL": "\x00",
    "a key twice": '{"rounds": 1, "format": 2, "rounds": 3}',
}
HOSTILE_TOML = {
    "lists": "rounds = " + "[" * DEEP + "]" * DEEP,
    "tables": "rounds = " + "{a = " * DEEP + "1" + "}" * DEEP,
    "not so deep": "rounds = " + "[" * 200 + "]" * 200,
    "dots": "a" + ".a" * 5000 + " = 1",
    "digits": "rounds = " + "9" * 5000,
    "more digits than a float holds": "rounds = " + "9" * 400,
    "hex digits": "rounds = 0x" + "f" * 5000,
    "surrogate": 'dataset = "\\ud800"',
    "no such day": "rounds = 2001-02-30",
    "a NUL": "\x00",
}


def run_metrics(path: Path) -> object:
    path.rename(path.parent / "metrics.jsonl")
    return RunFolder(path.parent).metrics_lines()


def search(path: Path) -> object:
    path.rename(path.parent / "search.json")
    return StudyFolder(path.parent).read_search()


def app_tree(path: Path) -> object:
    (path.parent / "config.toml").write_text('dataset = "folder"\nalpha = 0.0\n')
    path.rename(path.parent / "taxonomy.json")
    return App.read(path.parent)


def app_settings(path: Path) -> object:
    path.rename(path.parent / "pyproject.toml")
    return app_privacy(path.parent)


def app_config(path: Path) -> object:
    path.rename(path.parent / "config.toml")
    return App.read(path.parent)


@pytest.mark.parametrize(
    "read",
    [knowledge_file.read, read_taxonomy, read_checked_json, run_metrics, search, app_tree,
     lambda path: site_names(path.read_text())],
    ids=["knowledge", "taxonomy", "run", "metrics", "search", "app", "sites"],
)  # fmt: skip
@pytest.mark.parametrize("text", HOSTILE_JSON.values(), ids=HOSTILE_JSON)
def test_hostile_json_is_one_sentence(tmp_path, read, text) -> None:
    path = tmp_path / "hostile.json"
    path.write_text(text)
    if read is run_metrics and not text:
        return  # no round yet
    with pytest.raises(FedgrainError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    if "sites" not in str(caught.value):
        assert str(tmp_path) in str(caught.value)
        assert len(str(caught.value)) < 500
    str(caught.value).encode()


@pytest.mark.parametrize("read", [read_config, read_study, app_settings, app_config])
@pytest.mark.parametrize("text", HOSTILE_TOML.values(), ids=HOSTILE_TOML)
def test_hostile_toml_is_one_sentence(tmp_path, read, text) -> None:
    path = tmp_path / "hostile.toml"
    path.write_text(text)
    with pytest.raises(FedgrainError) as caught:
        read(path)
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("name", ["lists", "tables", "not so deep", "digits", "surrogate"])
def test_a_hostile_setting_is_a_bare_word(name) -> None:
    value = HOSTILE_TOML[name].partition(" = ")[2]
    assert setting_of(f"lr={value}") == ("lr", value)


def test_the_command_line_prints_it(tmp_path, capsys) -> None:
    (tmp_path / "deep.toml").write_text(HOSTILE_TOML["lists"])
    assert main(["run", str(tmp_path / "deep.toml"), "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert "deep.toml: not TOML we read: nested" in err and err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_what_is_allowed_is_read_as_it_is() -> None:
    content = {"a": [1, -2.5, None, True, "ä\U0001f600"], "b": {"c": 2**63 - 1, "d": -(2**63)}}
    assert parse_json(json.dumps(content), "here") == content
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(parse_json(deep, "here")) == deep
    assert parse_toml("a = [1, 2.5]\n[b]\nc = 2001-01-01", "here")["a"] == [1, 2.5]


def test_a_key_that_is_there_twice_is_named() -> None:
    text = '{"clients": [{"zoo": ["owl"], "museum": ["kite"], "zoo": ["cat"]}]}'
    with pytest.raises(FedgrainError, match="here: the key 'zoo' is there twice in one object"):
        parse_json(text, "here")


def test_an_app_whose_settings_name_no_sites_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.flwr.app.config]\nstrategy = 'ours'\n")
    with pytest.raises(FedgrainError, match=r"pyproject\.toml: not the settings of an app"):
        app_privacy(tmp_path)
