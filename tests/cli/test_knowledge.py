import json
import subprocess
import sys

import pytest

from fedgrain.cli import main
from fedgrain.knowledge import Knowledge, relational_neighbours
from fedgrain.taxonomy import dataset_taxonomy


def run(capsys, *arguments):
    code = main(["knowledge", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_json(capsys):
    wish = ("--dataset", "cifar100", "--alpha", 0.7, "--clients", 10, "--seed", 47, "--json")
    code, out, _ = run(capsys, *wish)
    assert code == 0
    printed = json.loads(out)
    assert (printed["alpha"], printed["seed"], printed["graph"]) == (0.7, 47, "complete")
    tree = dataset_taxonomy("cifar100")
    made = relational_neighbours(tree, 10, 0.7, 47)
    assert [c["known_nodes"] for c in printed["clients"]] == made.known.sum(axis=1).tolist()
    for client in printed["clients"]:
        assert client["known_leaves"] == 30
        assert client["leaf_labelled"] == 0.3
        assert 0.4 < client["mean_similarity"] < 0.7
        assert sum(client["labelled_at_depth"]) == pytest.approx(1)
    assert run(capsys, *wish)[1] == out
    for option in (("--graph", "tree"), ("--expertise", "coherent"), ("--seed", "48")):
        assert json.loads(run(capsys, *wish, *option)[1])["clients"] != printed["clients"]


def test_out_writes_what_can_be_loaded_again(capsys, tmp_path):
    wish = ("--dataset", "cifar100", "--alpha", 0.5, "--clients", 2, "--json")
    code, first, err = run(capsys, *wish, "--out", tmp_path / "k", "--trees", 1)
    assert code == 0
    assert "wrote knowledge.json and 6 pictures" in err
    stems = ("known_classes", "mean_similarity", "trees/client-0")
    pictures = {f"{stem}.{kind}" for stem in stems for kind in ("svg", "png")}
    files = {str(p.relative_to(tmp_path / "k")) for p in (tmp_path / "k").rglob("*") if p.is_file()}
    assert files == {"knowledge.json", *pictures}
    saved = tmp_path / "k" / "knowledge.json"
    tree = dataset_taxonomy("cifar100")
    assert Knowledge.load(saved, tree) == relational_neighbours(tree, 2, 0.5, 47)
    _, again, _ = run(capsys, "--dataset", "cifar100", "--load", saved, "--json")
    assert json.loads(again)["clients"] == json.loads(first)["clients"]
    assert "alpha" not in json.loads(again)


def test_own_tree_with_annotators_as_text(capsys, tmp_path):
    (tmp_path / "tree.csv").write_text("parent,child\nanimal,bird\nanimal,cat\nbird,kite\n")
    told = [{"name": "x", "known": ["animal"]}, {"name": "y", "known": ["animal", "cat"]}]
    content = {"clients": [{"name": "zoo", "annotators": told}]}
    (tmp_path / "k.json").write_text(json.dumps(content))
    arguments = ("--csv", tmp_path / "tree.csv", "--load", tmp_path / "k.json")
    code, out, _ = run(capsys, *arguments, "--out", tmp_path / "o")
    assert code == 0
    lines = out.splitlines()
    assert lines[2].split() == ["zoo,", "annotator", "x", "1", "0", "0.000", "-", "1.00", "0.00"]
    assert lines[3].startswith("zoo, annotator y")
    assert {path.name for path in (tmp_path / "o" / "trees").glob("*.svg")} == {
        "annotator-0.svg",
        "annotator-1.svg",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alpha", "0.95"], "alpha is 0.95 but with 10 clients"),
        (
            ["--alpha", "0.5", "--clients", "101", "--expertise", "coherent"],
            "101 clients are more than the 100 leaf classes",
        ),
        (["--load", "{file}"], "client 'a': there is no node 'n1' in the taxonomy"),
        (["--load", "{file}.not-there"], "No such file"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(capsys, tmp_path, arguments, words):
    file = tmp_path / "k.json"
    file.write_text('{"clients": [{"name": "a", "known": ["n1"]}]}')
    filled = [argument.format(file=file) for argument in arguments]
    code, out, err = run(capsys, "--dataset", "cifar100", *filled, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_unknown_word_is_refused_by_the_parser(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["knowledge", "--dataset", "cifar100", "--alpha", "much"])
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_help_imports_nothing_heavy():
    script = (
        "import sys, fedgrain.cli\n"
        "try: fedgrain.cli.main(['knowledge', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'torch', 'matplotlib', 'tqdm') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--expertise" in done.stdout
