"""Tables and the picture of published studies, from studies written by hand."""

import json
from pathlib import Path

import pytest

from fedgrain.tables.collect import read_results
from hand_made_study import write_study

SCRIPTS = Path(__file__).parents[2] / "scripts"
METHODS = ("flat-softmax/projection", "flat-softmax/projection+proximal=0.01", "flat-softmax/paper")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.fixture
def study(tmp_path):
    near = [0.70, 0.72, 0.74]
    above = [hf + by for hf, by in zip(near, (0.01, 0.02, 0.03), strict=True)]
    scores = dict(zip(METHODS, (near, above, near), strict=True))
    write_study(tmp_path, {(method, 0.9): of for method, of in scores.items()})
    for seed in (48, 49):
        (result,) = tmp_path.glob(f"runs/*-paper-*-seed{seed}/result.json")
        result.unlink()
    return tmp_path


def test_methods_are_compared_with_the_first_over_common_seeds(study):
    from published.difference_figure import draw_differences
    from published.difference_table import names_of

    results = read_results(study)
    names = names_of(study, results)
    assert names[METHODS[1]] == "with proximal=0.01"
    apart = results.difference("cifar100", METHODS[1], METHODS[0], 0.9, "hf")
    assert apart.mean == pytest.approx(0.02)
    assert apart.interval == pytest.approx(4.302653 * 0.01 / 3**0.5, rel=1e-5)  # t(0.975, 2)
    assert results.difference("cifar100", METHODS[2], METHODS[0], 0.9, "hf").mean == 0.0
    drawn = draw_differences(results, names, study / "differences")
    assert "with proximal=0.01" in drawn[0].read_text("utf-8")


def test_a_name_for_no_method_of_the_study_is_refused(study):
    from published.difference_table import NAMES, names_of

    (study / NAMES).write_text(f'"{METHODS[1]}" = "FedProx"\n')
    assert names_of(study, read_results(study))[METHODS[1]] == "FedProx"
    (study / NAMES).write_text('"oak/paper" = "oak"\n')
    with pytest.raises(SystemExit, match="oak/paper is no method of the study"):
        names_of(study, read_results(study))


def test_verdicts_name_what_a_cell_cost_and_what_cannot_be_compared(tmp_path):
    """The paper: flat-softmax 0.650 ± 0.012, cond-softmax 0.631 ± 0.007, both at alpha 0."""
    from published.paper_tables import verdicts

    scores = {("flat-softmax/paper", 0.0): [0.64, 0.66], ("cond-softmax/paper", 0.0): [0.7, 0.7]}
    write_study(tmp_path, scores, seeds=(47, 48))
    for result in tmp_path.glob("runs/*/result.json"):
        minutes = 3 if "seed47" in str(result) else 5
        cost = {"core_seconds": 60 * minutes, "bytes_sent": 2_000_000, "cycles": 1}
        result.write_text(json.dumps(json.loads(result.read_text()) | cost))

    def told():
        lines = map(cells, verdicts(tmp_path, read_results(tmp_path)).splitlines())
        return {row[1]: row for row in lines if row[0] == "0"}

    found = told()
    assert found["flat-softmax/paper"][6:] == ["reproduced", "", "4", "4.0", "2", ""]
    assert found["cond-softmax/paper"][5:7] == ["+0.069", "differs"]
    assert found["ps-softmax/paper"][6] == "not run"
    assert found["ps-softmax/paper"][-1].startswith("would take about 4 minutes of one core a seed")
    (tmp_path / "reasons.toml").write_text('"not comparable" = "a sample"\n"not run" = "or more"\n')
    found = told()
    assert found["flat-softmax/paper"][6] == found["cond-softmax/paper"][6] == "not comparable"
    assert found["cond-softmax/paper"][-1] == "a sample"
    assert found["fedbdft/paper"][-1].endswith("here and more for its branches; or more")


def test_the_setting_with_the_best_validation_is_bold_and_scores_are_kept(tmp_path, monkeypatch):
    import tuning_table

    momentum = "+server_optimizer=sgd+server_momentum=0.5"
    scores = {
        ("flat-softmax/paper+lr=0.1", 0.9): [0.60, 0.62],
        (f"flat-softmax/paper+lr=0.1{momentum}", 0.9): [0.64, 0.62],
        ("scaffold:flat-softmax/paper+lr=0.1", 0.9): [0.50, 0.52],
    }
    write_study(tmp_path / "study", scores, seeds=(42, 43))
    for result in tmp_path.glob("study/runs/*/result.json"):
        values = json.loads(result.read_text())
        result.write_text(json.dumps({**values, "validation_hf": values["hf"] + 0.1}))
    kept = tmp_path / "kept.json"
    printed = []
    for given in ([str(tmp_path / "study")], []):  # the second time from what was kept
        monkeypatch.setattr("sys.argv", ["tuning_table", *given, "--kept", str(kept)])
        tuning_table.main()
        printed.append(tuning_table.table(json.loads(kept.read_text())))
    assert printed[0] == printed[1]
    head, _, ours, other = map(cells, printed[0].splitlines())
    assert head == ["method", "lr 0.1", "lr 0.1, server momentum 0.5"]
    assert ours == ["flat-softmax/paper", "0.710", "**0.730**"]
    assert other == ["scaffold:flat-softmax/paper", "**0.610**", ""]


def test_a_setting_that_diverged_with_a_seed_is_not_chosen():
    import tuning_table

    both, one = {"42": 0.5, "43": 0.6}, {"42": 0.9}
    table = tuning_table.table({"flat-softmax/paper": {"lr 0.1": both, "lr 0.2": one}})
    assert cells(table.splitlines()[2]) == ["flat-softmax/paper", "**0.550**", ""]


def test_the_papers_questions_are_answered_over_common_seeds_and_without_bounds(study):
    from published.trunk_tables import questions

    scores = {
        "flat-softmax/projection": [0.70, 0.72, 0.74], "flat-softmax/paper": [0.60, 0.64, 0.68],
        "centralised:flat-softmax/paper": [0.9, 0.9, 0.9],
    }  # fmt: skip
    write_study(study, {(method, 0.9): of for method, of in scores.items()})
    (study / "runs" / "cifar100-flat-softmax-paper-alpha0.9-seed49" / "result.json").unlink()
    row = cells(questions(read_results(study)).splitlines()[2])
    assert row[:4] == ["0.9", "not run", "not run", "+0.090"]


def test_a_mean_over_other_seeds_stands_beside_no_score(study):
    """The last method has one seed left, the others three."""
    from published.cells import cell_means

    results = read_results(study)
    scored = {path.parent.name: 0.5 for path in study.glob("runs/*/result.json")}
    assert set(cell_means(study, results, scored)) == {("cifar100", m, 0.9) for m in METHODS}
    scored = {name: value for name, value in scored.items() if "seed47" in name}
    assert set(cell_means(study, results, scored)) == {("cifar100", METHODS[2], 0.9)}
