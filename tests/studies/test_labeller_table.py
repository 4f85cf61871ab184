"""The table of the learned labeller, from a study written by hand; how well labellers are found."""

import json
from pathlib import Path

import pytest

from hand_made_study import write_study

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_the_learned_labeller_is_compared_with_the_best_of_its_row(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import labeller_table

    scores = {
        ("flat-softmax/projection", 0.9): [0.80, 0.82, 0.81],
        ("flat-softmax/learned", 0.9): [0.79, 0.81, 0.80],
        ("flat-softmax/marginal", 0.9): [0.60, 0.60, 0.60],
    }
    write_study(tmp_path / "honest", scores)
    kept = tmp_path / "kept.json"
    for given in ([str(tmp_path / "honest")], []):  # the second time from what was kept
        monkeypatch.setattr("sys.argv", ["labeller_table", *given, "--kept", str(kept)])
        labeller_table.main()
    first, second = capsys.readouterr().out.strip().split("\n\n")
    assert first == second
    other = kept.read_text().replace("\n", " ")  # the same content, written otherwise
    kept.write_text(other)
    labeller_table.main()
    assert kept.read_text() == other  # nothing was added, so nothing is written
    rows = labeller_table.cells(json.loads(kept.read_text()))
    head, _, row = labeller_table.table(rows).strip().splitlines()
    names, cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in (head, row))
    assert names[:4] == ["alpha; fault", "projection", "learned", "marginal"]
    assert cells[0] == "0.9; 0"
    assert cells[1] == "**0.810 ± 0.025, 0.510 ± 0.025**"  # t(0.975, 2) * 0.01 / sqrt(3)
    assert cells[2].startswith("0.800") and cells[4:] == ["0.010", "0.010"]
    labeller_table.draw(rows, tmp_path / "picture")
    assert (tmp_path / "picture.svg").exists()
    name = "flat-softmax/learned+responsibilities=round+labeller=fedmt"
    assert labeller_table.short(name) == "learned: FedMT"


@pytest.mark.parametrize("lazy", [0.0, 0.8])
def test_a_run_finds_out_how_its_labellers_write(lazy, small, monkeypatch):
    """Known and unknown leaves, careful and lazy: the error of T over the rounds of a real run."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import labeller_recovery

    config = small(
        dataset="glyphs", head="flat-softmax", supervision="learned", lazy_labels=lazy, batch=64
    )
    *_, last = labeller_recovery.recovery(config, rounds=(0, 1))
    assert last.round == 1 and last.error < 0.06
    assert lazy - 0.15 < last.lowest <= last.highest < lazy + 0.1
