import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from fedgrain.catalogue import TABLE_FORMATS
from fedgrain.errors import StudyError
from fedgrain.studies.planned_runs import cell_runs
from fedgrain.tables.collect import paper_figures, read_results
from fedgrain.tables.headline import sentence
from fedgrain.tables.study_tables import Cell, gains_tables, hierarchy_table, score_tables
from fedgrain.tables.table_formats import format_tables
from hand_made_study import SCORES, write_study

STORED = Path(__file__).parent / "stored"
SUFFIX = {"text": "txt", "markdown": "md", "latex": "tex", "csv": "csv", "json": "json"}


@pytest.fixture
def results(tmp_path):
    write_study(tmp_path)
    return read_results(tmp_path)


def entries(table):
    return {
        (row, column.group, column.name): cell
        for row, cells in table.rows
        for cell, column in zip(cells, table.columns, strict=True)
    }


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_every_format_equals_the_stored_one(results, tmp_path, form):
    tables = score_tables(results, paper=True, paired="fedbdft/paper")
    tables += [*gains_tables(results), hierarchy_table(tmp_path, results)]
    stored = STORED / f"table.{SUFFIX[form]}"
    assert format_tables(tables, form) == stored.read_text()


def test_numbers_in_csv_are_those_of_scipy(results):
    rows = csv.DictReader(io.StringIO(format_tables(score_tables(results), "csv")))
    checked = 0
    for row in rows:
        values = [
            hf + {"HR": 0.01, "HP": -0.02, "HF": 0}[row["column"]]
            for hf in SCORES[row["row"], float(row["group"].removeprefix("alpha "))]
        ]
        assert float(row["mean"]) == pytest.approx(sum(values) / 3)
        half = stats.t.ppf(0.975, 2) * stats.sem(values)
        assert float(row["interval95"]) == pytest.approx(half, abs=1e-12)
        assert [float(v) for v in row["values"].split()] == pytest.approx(values)
        checked += 1
    assert checked == 24


def test_best_is_bold_second_underlined_and_bounds_do_not_compete(results):
    (table,) = score_tables(results)
    ranks = {key: cell.rank for key, cell in entries(table).items()}
    assert ranks["flat-softmax/projection", "alpha 0.9", "HF"] == 1
    assert ranks["fedbdft/paper", "alpha 0.9", "HF"] == 2
    assert ranks["flat-softmax/paper", "alpha 0.9", "HF"] is None
    assert {rank for key, rank in ranks.items() if key[0].startswith("oracle")} == {None}
    # equal as printed: both are second
    assert ranks["flat-softmax/paper", "alpha 0", "HF"] == 2
    assert ranks["fedbdft/paper", "alpha 0", "HF"] == 2


def test_two_seeds_give_values_without_interval_or_bold(tmp_path):
    write_study(tmp_path, {key: values[:2] for key, values in SCORES.items()}, (47, 48))
    (table,) = score_tables(read_results(tmp_path))
    cells = entries(table).values()
    assert {(cell.rank, cell.interval, len(cell.values)) for cell in cells} == {(None, None, 2)}
    text = format_tables([table], "text")
    assert "0.400, 0.410" in text
    assert not set("±*_") & set(text)


def test_one_method_with_too_few_seeds_leaves_its_column_unmarked(results, tmp_path):
    scores = {key: dict(metrics) for key, metrics in results.scores.items()}
    key = ("cifar100", "fedbdft/paper", 0.9)
    scores[key] = {metric: dict(list(v.items())[:2]) for metric, v in scores[key].items()}
    (table,) = score_tables(replace(results, scores=scores))
    marked = {key[1] for key, cell in entries(table).items() if cell.rank}
    assert marked == {"alpha 0"}


def test_paired_differences_use_common_seeds(results):
    values = [0.61 - 0.55, 0.66 - 0.56, 0.65 - 0.57]
    found = results.difference("cifar100", "flat-softmax/projection", "fedbdft/paper", 0.9, "hf")
    assert found.values == pytest.approx(values)
    assert found.interval == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(values))
    scores = {key: dict(metrics) for key, metrics in results.scores.items()}
    key = ("cifar100", "fedbdft/paper", 0.9)
    scores[key] = {"hf": {48: 0.56, 99: 0.1}}
    fewer = replace(results, scores=scores)
    found = fewer.difference("cifar100", "flat-softmax/projection", "fedbdft/paper", 0.9, "hf")
    assert (found.values, found.interval) == ((pytest.approx(0.10),), None)
    with pytest.raises(StudyError, match="no method 'oak' in the study"):
        score_tables(results, paired="oak")


def test_the_papers_gains_are_not_its_headline(tmp_path):
    """It claims 27.9% at 0.6 and 56.4% at 0.9; its own tables give half of that and less."""
    gains = {0.6: [], 0.9: []}
    for dataset in ("cifar100", "tiny-imagenet", "imagenet"):
        folder = tmp_path / dataset
        write_study(folder, {("fedbdft/paper", a): [0.5] * 3 for a in gains}, dataset=dataset)
        table = entries(gains_tables(read_results(folder), paper=True)[1])
        for alpha, found in gains.items():
            over = ("over their mean", "mean over each")
            found.append([table["fedbdft/paper", f"alpha {alpha:g}", n].mean for n in over])
    means = {
        a: [sum(reading) / 3 for reading in zip(*rows, strict=True)] for a, rows in gains.items()
    }
    assert means[0.6] == pytest.approx([0.123, 0.149], abs=5e-4)
    assert means[0.9] == pytest.approx([0.302, 0.342], abs=5e-4)


def test_gains_by_hand(results):
    (table,) = gains_tables(results)
    found = entries(table)
    flat = (0.40 + 0.41 + 0.45) / 3
    gain = found["fedbdft/paper", "alpha 0.9", "over their mean"].mean
    assert gain == pytest.approx(0.56 / flat - 1)
    assert found["flat-softmax/paper", "alpha 0.9", "over their mean"] is None  # no other baseline


def test_a_variant_is_no_baseline(tmp_path):
    """A rival as flat-softmax/paper+proximal=0.01, or the same head again, is not the paper's."""
    hf = {"fedbdft/paper": 0.6, "flat-softmax/paper": 0.4, "flat-softmax/paper+proximal=0.01": 0.5}
    write_study(tmp_path, {(method, 0.9): [value] * 3 for method, value in hf.items()})
    (table,) = gains_tables(read_results(tmp_path))
    gain = entries(table)["fedbdft/paper", "alpha 0.9", "over their mean"].mean
    assert gain == pytest.approx(0.6 / 0.4 - 1)


def test_the_papers_figures_stand_beside(results):
    (table,) = score_tables(results, paper=True)
    found = entries(table)
    assert found["flat-softmax/paper (paper)", "alpha 0", "HF"] == Cell(0.650, 0.012)
    assert found["fedbdft/paper (paper)", "alpha 0.9", "HF"].mean == 0.561
    assert not any(row.startswith("flat-softmax/projection (") for row, _, _ in found)
    assert len(paper_figures()) == 72
    assert paper_figures(True)["imagenet", "fedbdft/paper", 0.0]["unseen_hf"] == (0.531, 0.011)


def test_unfinished_runs_are_counted_and_left_out(tmp_path):
    write_study(tmp_path)
    gone = sorted((tmp_path / "runs").glob("*projection*alpha0.9*seed48/result.json"))
    assert len(gone) == 1
    gone[0].unlink()
    results = read_results(tmp_path)
    assert results.missing == 1
    assert list(results.by_seed("cifar100", "flat-softmax/projection", 0.9, "hf")) == [47, 49]


def test_local_only_is_the_mean_over_clients(tmp_path):
    write_study(tmp_path, {("local-only", 0.9): [0.5, 0.5, 0.5]})
    runs = sorted((tmp_path / "runs").glob("*client*seed47/result.json"))
    assert len(runs) == 10
    for number, run in enumerate(runs):
        run.write_text(json.dumps({**json.loads(run.read_text()), "hf": number / 10}))
    found = read_results(tmp_path).by_seed("cifar100", "local-only", 0.9, "hf")
    assert found[47] == pytest.approx(0.45)
    runs[3].unlink()
    assert 47 not in read_results(tmp_path).by_seed("cifar100", "local-only", 0.9, "hf")


def test_hierarchy_properties(results, tmp_path):
    found = entries(hierarchy_table(tmp_path, results))
    assert found["cifar100, full", "", "nodes"].mean == 6
    assert found["cifar100, full", "", "max depth"].mean == 3
    assert found["cifar100, coarsened", "", "internal"].mean == 1
    assert found["cifar100, coarsened", "", "mean children"].mean == 3


def test_the_sentence_says_what_the_numbers_say(results):
    assert sentence(results) == (
        "On cifar100 at alpha 0.9, flat-softmax/projection has the best HF, 0.640, 0.080 ± 0.050 "
        "above the next, fedbdft/paper, and 0.220 above flat-softmax/paper; from alpha 0 to 0.9 "
        "it loses 0.060, flat-softmax/paper loses 0.230."
    )


def test_the_sentence_says_when_a_lead_may_be_chance(tmp_path):
    write_study(tmp_path, {("flat-softmax/paper", 0.9): [0.40, 0.41, 0.45],
                           ("fedbdft/paper", 0.9): [0.42, 0.46, 0.42]})  # fmt: skip
    told = sentence(read_results(tmp_path))
    apart = stats.sem([0.02, 0.05, -0.03]) * stats.t.ppf(0.975, 2)
    assert told.endswith(
        f"0.433, 0.013 ± {apart:.3f} (it may be chance) above the next, flat-softmax/paper."
    )
    write_study(tmp_path / "one", {("flat-softmax/paper", 0.9): [0.40],
                                   ("fedbdft/paper", 0.9): [0.46]}, seeds=[47])  # fmt: skip
    assert "0.060 (one seed, so it may be chance) above" in sentence(read_results(tmp_path / "one"))


def test_the_sentence_compares_methods_over_the_same_seeds(tmp_path):
    study = write_study(tmp_path, {cell: hf for cell, hf in SCORES.items() if cell[1] == 0.9})
    (best,) = cell_runs(study, "cifar100", "flat-softmax/projection", 0.9, 47, {})
    shutil.rmtree(tmp_path / "runs" / best)
    told = sentence(read_results(tmp_path))
    assert told.startswith(
        "On cifar100 at alpha 0.9, of the 2 methods with 3 seeds, fedbdft/paper has the best HF, "
        "0.560, 0.140 ± "
    )
    assert told.endswith("has 0.650. 1 with fewer or other seeds are not compared.")
    for method in ("flat-softmax/paper", "fedbdft/paper"):
        (run,) = cell_runs(study, "cifar100", method, 0.9, 48, {})
        shutil.rmtree(tmp_path / "runs" / run)
    for seed in (47, 49):
        (run,) = cell_runs(study, "cifar100", "fedbdft/paper", 0.9, seed, {})
        shutil.rmtree(tmp_path / "runs" / run)
    (run,) = cell_runs(study, "cifar100", "flat-softmax/paper", 0.9, 47, {})
    shutil.rmtree(tmp_path / "runs" / run)
    assert sentence(read_results(tmp_path)) == (
        "On cifar100 at alpha 0.9, flat-softmax/projection has HF 0.655 over two seeds; no other "
        "method has the same, so it is compared with none."
    )


def test_the_sentence_does_not_compare_different_seeds(tmp_path):
    study = write_study(tmp_path, {cell: hf for cell, hf in SCORES.items() if cell[1] == 0.9})
    for method, seed in {"flat-softmax/paper": 47, "fedbdft/paper": 47,
                         "flat-softmax/projection": 49}.items():  # fmt: skip
        (run,) = cell_runs(study, "cifar100", method, 0.9, seed, {})
        shutil.rmtree(tmp_path / "runs" / run)
    told = sentence(read_results(tmp_path))
    assert "of the 2 methods with two seeds, fedbdft/paper has the best HF, 0.565, 0.135 (" in told
    assert told.endswith("1 with fewer or other seeds are not compared.")


def test_with_one_alpha_the_sentence_names_the_oracle(tmp_path):
    write_study(tmp_path, {cell: hf for cell, hf in SCORES.items() if cell[1] == 0.9})
    assert sentence(read_results(tmp_path)).endswith(
        "above flat-softmax/paper; oracle:flat-softmax, where every site knows every class, has "
        "0.650."
    )


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(StudyError, match=r"no study here \(there is no study.toml\)"):
        read_results(tmp_path)
