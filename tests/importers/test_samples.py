"""Every format: counts by hand, what each kind of damage says, mutations without a traceback."""

import csv
import functools
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from attacks.harness import fedgrain
from attacks.imports import tried
from attacks.mutations import mutated
from fedgrain.catalogue import IMPORTERS
from fedgrain.folders.folder import read_rows, read_tree
from import_samples import SAMPLES
from import_trees import SYNONYMS, TREES

MUTATIONS = int(os.environ.get("FEDGRAIN_MUTATIONS", "25"))  # of every sample
NAMES = [sample.name for sample in SAMPLES]


@pytest.fixture(params=SAMPLES, ids=NAMES)
def sample(request):
    return request.param


def run(sample, folder, *more):
    return fedgrain(*sample.arguments(folder), *more)


def test_every_format_has_a_sample():
    assert {sample.format for sample in SAMPLES} == set(IMPORTERS)


def test_labels_are_those_counted_by_hand(sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # sources are relative, as people type them
    sample.write(Path())
    told = run(sample, Path(), "--json")
    assert told.code == 0, told.err
    account = json.loads(told.out)
    out = tmp_path / "out"
    tree = read_tree(out, None)
    assert (account["labels"], len(tree)) == (sample.labels, sample.nodes)
    inner = [node for node in range(len(tree)) if not tree.is_leaf(node)]
    below = {tree.ids[node]: [tree.ids[child] for child in tree.children(node)] for node in inner}
    assert below == TREES[sample.name]
    synonyms = {node: list(words) for node, words in tree.synonyms.items()}
    assert synonyms == SYNONYMS.get(sample.name, {})
    assert (out / "import.txt").read_text().startswith(f"{sample.format}: ")
    if not sample.labels:
        assert not (out / "images.csv").exists()
        return
    rows, mistakes, _ = read_rows(out, None, tree)
    assert not mistakes.groups and not mistakes.notes
    found = [tree.ids[node] for node in rows.labels]
    assert {label: found.count(label) for label in found} == sample.labels
    with (out / "images.csv").open() as file:
        written = {row["path"]: row for row in csv.DictReader(file)}
    assert all((out / path).is_file() for path in written)
    for name, said in sample.rows.items():
        (row,) = [row for path, row in written.items() if path.endswith(name)]
        assert (row.get("client", ""), row.get("annotator", ""), row.get("split", "")) == said


def test_damage_is_told_with_its_place_and_nothing_is_written(sample, tmp_path):
    for number, damage in enumerate(sample.damages):
        folder = tmp_path / str(number)
        folder.mkdir()
        sample.write(folder)
        if damage.do is not None:
            damage.do(folder)
        else:
            name = damage.file or sample.sources[0]
            text = sample.files[name]
            assert damage.old in text
            (folder / name).write_text(text.replace(damage.old, damage.new, 1), newline="")
        told = run(sample, folder).judged()
        assert told.code == 2 and re.search(damage.told, told.err), told.err
        assert not (folder / "out").exists()


def test_mutations_end_without_a_traceback(sample, tmp_path):
    """Hypothesis makes every choice of the damage, so that a failure is reduced to its core."""
    sample.write(tmp_path / "good")
    codes = set()

    @settings(
        max_examples=MUTATIONS, database=None, deadline=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=set(Phase) - {Phase.explain},
    )  # fmt: skip
    @given(st.sampled_from(sample.damaged), st.sampled_from(sample.kinds), st.randoms())
    def one(name, kind, choices):
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        damage = functools.partial(mutated, kind=kind, rng=choices)
        codes.add(tried(sample, tmp_path / "bad", name, damage))

    one()
    assert codes <= {0, 2, 3} and 2 in codes
