"""``fedgrain refine``: from a manifest to a finer one that a run takes, and back."""

import csv
import json
import shlex
from collections import Counter

import numpy as np
import pytest

from fedgrain.cli import build_parser
from fedgrain.data.model_labels import model_annotator
from fedgrain.folders.folder import read_rows, read_tree
from fedgrain.knowledge import Knowledge, project
from fedgrain.refinement.review import review_server
from fedgrain.refinement.review_session import Reviewing
from own_sites import ABOVE


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def refined(fedgrain, own, *more, manifest="site/images.csv", out="site/refined.csv"):
    done = fedgrain(
        "refine", own / "run", "--manifest", own / manifest, "--out", own / out, "--trust-code",
        "--json", *more, PYTHONPATH="tests",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), read(own / out)


def test_sure_labels_are_taken_and_all_can_be_undone(fedgrain, own):
    told, rows = refined(fedgrain, own, "--accept", "0.6")
    given = read(own / "site/images.csv")
    assert told["rows"] == len(rows) == len(given)
    assert told["supervision"] == "learned"  # as the run was trained
    coarse = [
        row for row in given if row["label"] in ("bird", "mammal") and row["split"] == "train"
    ]
    assert told["coarse"] == told["proposed"] == len(coarse)
    taken = [row for row in rows if row["source"] == "model"]
    assert 0 < told["taken"] == len(taken)
    for row in rows:
        was = next(one for one in given if one["path"] == row["path"])
        assert row["given_label"] == was["label"]
        if row["proposal"]:
            assert ABOVE[row["proposal"]] == was["label"]  # never contradicted
            assert told["guaranteed"] and 0 <= float(row["guarantee"]) < 1
        if row["source"] == "model":
            assert row["label"] == row["proposal"] and float(row["probability"]) >= 0.6
            assert row["annotator"] == "(model, level 2)"  # volunteers do not seem to know it
        else:
            assert row["label"] == was["label"] and row["annotator"] == ""
        assert row["split"] == "train" or row["proposal"] == ""
    read_rows(own / "site", own / "site/refined.csv", read_tree(own / "site", None))[1].refuse()

    done = fedgrain("refine", "--undo", own / "site/refined.csv", "--out", own / "site/back.csv")
    assert done.returncode == 0, done.stderr
    assert (own / "site/back.csv").read_text() == (own / "site/images.csv").read_text()


@pytest.mark.parametrize("out", ["site/new one.csv", "my labels/new.csv"])
def test_the_command_that_comes_next_works_as_it_is_printed(fedgrain, own, out):
    done = fedgrain("refine", own / "run", "--manifest", own / "site/images.csv", "--out",
                    own / out, "--trust-code", PYTHONPATH="tests")  # fmt: skip
    assert done.returncode == 0, done.stderr
    program, *words = shlex.split(done.stdout.splitlines()[-1].partition("with: ")[2])
    assert program == "fedgrain"
    asked = build_parser().parse_args(words)
    session = Reviewing(asked.manifest, own / "reviewed.csv", asked.annotator)
    with review_server(session, asked.taxonomy) as server:
        assert server.session.numbers()["images"] > 0


def test_what_does_not_occur_here_is_never_proposed(fedgrain, own):
    (own / "here.csv").write_text("client,label\nzoo,owl\nzoo,mammal\nmuseum,kite\n")
    told, rows = refined(fedgrain, own, "--only", own / "here.csv", "--site", "zoo")
    found = Counter(row["proposal"] for row in rows if row["proposal"])
    assert found["owl"] > 0 == found["kite"] and told["proposed"] == told["coarse"]
    birds = [row for row in rows if row["proposal"] == "owl"]
    assert all(float(row["probability"]) == 1.0 for row in birds)  # nothing else is left
    (own / "few.txt").write_text("mammal\n")
    told, rows = refined(fedgrain, own, "--only", own / "few.txt")
    assert {ABOVE[row["proposal"]] for row in rows if row["proposal"]} == {"mammal"}


def test_refining_again_starts_from_what_people_wrote(fedgrain, own):
    _, first = refined(fedgrain, own, "--accept", "0.6")
    told, again = refined(
        fedgrain, own, "--accept", "0.6", manifest="site/refined.csv", out="elsewhere/again.csv"
    )
    assert [row | {"path": ""} for row in again] == [row | {"path": ""} for row in first]
    assert again[0]["path"] == "../site/images/museum-kite-0.png"  # as seen from its own folder
    assert told["taken"]


def test_by_a_file_of_knowledge_only_what_the_writer_cannot_name(fedgrain, own):
    knowledge = own / "knowledge.json"
    knowledge.write_text(
        '{"museum": "everything", "zoo": "everything",'
        ' "volunteers": ["bird", "mammal", "kite", "dog"]}'
    )
    told, rows = refined(fedgrain, own, "--knowledge", knowledge, "--accept", "0.99")
    assert told["supervision"] == "projection"
    coarse = [row for row in rows if row["proposal"]]
    assert {row["label"] for row in coarse} == {"owl", "cat"}  # all that is left, for certain
    assert {row["probability"] for row in coarse} == {"1.0000"}
    assert all(float(row["guarantee"]) > 0.5 for row in coarse)  # that it is a bird suffices
    assert told["taken_leaves"] == len(coarse)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--accept", "0.4"], "--accept is a probability above 0.5 and at most 1, not 0.4"),
        (["--knowledge", "none.json"], "none.json: No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(fedgrain, own, arguments, said):
    done = fedgrain(
        "refine", own / "run", "--manifest", own / "site/images.csv", "--out",
        own / "site/new.csv", "--trust-code", *arguments, PYTHONPATH="tests",
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (own / "site/new.csv").exists()


def test_a_file_that_cannot_be_read_costs_only_its_own_proposal(fedgrain, own):
    broken = own / "site/images/volunteers-kite-0.png"
    broken.write_bytes(b"not an image")
    done = fedgrain("refine", own / "run", "--manifest", own / "site/images.csv", "--out",
                    own / "site/new.csv", "--trust-code", PYTHONPATH="tests")  # fmt: skip
    assert done.returncode == 3
    assert "volunteers-kite-0.png" in done.stderr
    rows = {row["path"]: row for row in read(own / "site/new.csv")}
    assert rows["images/volunteers-kite-0.png"]["proposal"] == ""
    assert rows["images/volunteers-kite-1.png"]["proposal"]


def test_a_models_coarser_label_is_not_read_as_what_it_could_not_name(made):
    """It wrote bird where it was unsure: under projection that must still mean every bird."""
    tree = read_tree(made / "site", None)
    bird, kite, owl = map(tree.index, ("bird", "kite", "owl"))
    labels = np.array([bird, bird, kite, kite, bird, bird])
    people = ["Ana"] * 2 + [model_annotator(int(tree.depth[label])) for label in labels[2:]]
    known = Knowledge.from_labels(tree, labels, ["zoo"] * 6, people)
    leaves = tree.leaves.tolist()
    for row, name in enumerate(known.annotators):
        if name != model_annotator(int(tree.depth[kite])):
            open_leaves = project(tree, known).stands_for(row)[bird]
            assert open_leaves[leaves.index(kite)] and open_leaves[leaves.index(owl)]
