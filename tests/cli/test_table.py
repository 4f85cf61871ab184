import csv
import io
import json

import pytest

from fedgrain.cli import main
from hand_made_study import write_study


def table(capsys, *arguments):
    code = main(["table", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_every_option(capsys, tmp_path):
    write_study(tmp_path)
    code, out, err = table(capsys, tmp_path)
    assert (code, err) == (0, "")
    assert "*0.640 ± 0.066*" in out
    _, out, _ = table(capsys, tmp_path, "--format", "json", "--paper", "--gains", "--hierarchy")
    titles = [one["title"] for one in json.loads(out)["tables"]]
    assert titles == [
        "cifar100",
        "Relative gain over the baselines, cifar100",
        "Relative gain over the baselines, cifar100, the paper's figures",
        "Class hierarchies",
    ]
    _, out, _ = table(capsys, tmp_path, "--format", "csv", "--paired", "fedbdft/paper")
    paired = [r for r in csv.DictReader(io.StringIO(out)) if r["column"] == "HF - fedbdft/paper"]
    assert len(paired) == 6
    _, out, _ = table(capsys, tmp_path, "--format", "latex")
    assert out.count(r"\textbf{") == 6
    _, out, _ = table(capsys, tmp_path, "--format", "markdown")
    assert "| **0.640 ± 0.066** |" in out


def test_missing_runs_are_said_on_standard_error(capsys, tmp_path):
    write_study(tmp_path)
    next((tmp_path / "runs").glob("*projection*alpha0.9*seed48/result.json")).unlink()
    code, _, err = table(capsys, tmp_path)
    assert (code, err) == (0, "1 cells of the grid have no result yet\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--paired", "oak"), "there is no method 'oak'"), ((), "no study here")],
)
def test_bad_input_is_one_sentence(capsys, tmp_path, options, words):
    if options:
        write_study(tmp_path)
    code, out, err = table(capsys, tmp_path, *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert words in err
