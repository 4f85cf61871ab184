import csv
import json
import os
import subprocess
import sys

import pytest

from fedgrain.cli import main
from fedgrain.taxonomy import read_csv, read_json, subsets

EXPECTED = {
    "cifar100": {
        "full": {"nodes": 151, "internal": 51, "max_depth": 10, "mean_children": 2.94},
        "coarse": {
            "nodes": 123, "internal": 23, "max_depth": 8, "mean_children": 5.3, "exact": True,
            "searched": [],
        },
    },
    "tiny-imagenet": {
        "full": {"nodes": 300, "internal": 100, "max_depth": 11, "mean_children": 2.99},
        "coarse": {
            "nodes": 237, "internal": 37, "max_depth": 6, "mean_children": 6.38, "exact": True,
            "searched": [],
        },
    },
    "imagenet": {
        "full": {"nodes": 1372, "internal": 372, "max_depth": 15, "mean_children": 3.69},
        "coarse": {
            "nodes": 1067, "internal": 67, "max_depth": 9, "mean_children": 15.91, "exact": True,
            "searched": [],
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("dataset", EXPECTED)
def test_the_same_counts_and_trees_whatever_the_hash_seed(fedgrain, dataset, tmp_path):
    hash_seed = "0" if os.environ.get("PYTHONHASHSEED") == "4711" else "4711"
    done = fedgrain(
        *["taxonomy", "--dataset", dataset, "--json", "--out", tmp_path, "--no-pictures"],
        PYTHONHASHSEED=hash_seed,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == EXPECTED[dataset]
    for kind in ("full", "coarse"):
        from_json = read_json(tmp_path / f"{kind}.json")
        assert from_json.ids == read_csv(tmp_path / f"{kind}.csv").ids
        with (tmp_path / f"{kind}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == EXPECTED[dataset][kind]["nodes"] - 1
        with (tmp_path / f"{kind}.json").open(encoding="utf-8") as file:
            saved = file.read()
        expected = main_out(dataset, kind, tmp_path)
        assert saved == expected


def main_out(dataset, kind, tmp_path):
    """The tree as this process (with its own hash seed) writes it."""
    from fedgrain.taxonomy import DEFAULT_MAX_CHILDREN, coarsen, dataset_taxonomy, write_json

    tree = dataset_taxonomy(dataset)
    if kind == "coarse":
        tree = coarsen(tree, DEFAULT_MAX_CHILDREN[dataset]).taxonomy
    write_json(tree, tmp_path / "again.json")
    return (tmp_path / "again.json").read_text(encoding="utf-8")


def test_own_trees_and_noun_lists(fedgrain, tmp_path):
    (tmp_path / "nouns.txt").write_text("dog.n.01\nn02121620  # cat\noak.n.02\nsparrow.n.01\n")
    done = fedgrain("taxonomy", "--wnids", tmp_path / "nouns.txt", "--json")
    assert (
        json.loads(done.stdout)["full"]["nodes"] - json.loads(done.stdout)["full"]["internal"] == 4
    )
    (tmp_path / "tree.csv").write_text("parent,child\nr,a\nr,b\na,x\na,y\nb,z\nb,x\n")
    done = fedgrain("taxonomy", "--csv", tmp_path / "tree.csv", "--dag", "--max-children", 5)
    assert "classes in all" in done.stdout
    assert done.returncode == 0


def test_pictures_may_be_left_out(tmp_path, capsys):
    wish = ["taxonomy", "--dataset", "glyphs", "--out"]
    assert main([*wish, str(tmp_path / "plain"), "--no-pictures"]) == 0
    data = ["coarse.csv", "coarse.json", "full.csv", "full.json"]
    assert sorted(path.name for path in (tmp_path / "plain").iterdir()) == data
    assert "pictures:" not in capsys.readouterr().err
    assert main([*wish, str(tmp_path / "drawn")]) == 0
    pictures = ["coarse.png", "coarse.svg", "full.png", "full.svg"]
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == sorted(data + pictures)
    assert "pictures: 100%" in capsys.readouterr().err
    knowledge = ["knowledge", "--dataset", "glyphs", "--alpha", "0.5", "--no-pictures", "--out"]
    assert main([*knowledge, str(tmp_path / "k")]) == 0
    assert [path.name for path in (tmp_path / "k").iterdir()] == ["knowledge.json"]


def test_what_a_graph_loses_is_said(tmp_path, capsys):
    rows = "all,animal\nanimal,livestock\nanimal,sheep\nlivestock,goat\ngoat,bleat\nsheep,bleat\n"
    (tmp_path / "tree.csv").write_text("parent,child\n" + rows)
    assert main(["taxonomy", "--csv", str(tmp_path / "tree.csv"), "--dag", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["dag"] == {
        "became_leaves": ["sheep"],
        "dropped_edges": [["sheep", "bleat"]],
    }
    assert json.loads(out)["full"]["nodes"] == 6
    assert "1 classes whose children all went to other parents stay as leaves: sheep" in err
    knowledge = ["knowledge", "--csv", str(tmp_path / "tree.csv"), "--dag", "--alpha", "0.5"]
    assert main([*knowledge, "--clients", "2"]) == 0
    assert "stay as leaves: sheep" in capsys.readouterr().err


def test_where_a_search_decided_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(subsets, "EXACT_SUBSETS", 0)
    assert main(["taxonomy", "--dataset", "cifar100", "--json"]) == 0
    coarse = json.loads(capsys.readouterr().out)["coarse"]
    assert coarse["exact"] is False and len(coarse["searched"]) > 3
    for found in coarse["searched"]:
        assert found["node"].startswith("n") and found["subsets"] > 1
        assert found["score"] <= found["at_most"] + 1e-9
    assert main(["taxonomy", "--dataset", "cifar100"]) == 0
    said = capsys.readouterr().out
    assert f"{len(coarse['searched'])} inner classes had too many subsets" in said
    assert any(f"  {found['node']}: " in said for found in coarse["searched"])
    assert "the optimum is at most" in said


def test_neutral_singletons_and_max_children(capsys):
    assert main(["taxonomy", "--dataset", "cifar100", "--singletons", "neutral", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coarse"]["internal"] == 44
    assert main(["taxonomy", "--dataset", "cifar100", "--max-children", "32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coarse"]["internal"] < 23


BAD = {
    "two parents": ("--csv", "parent,child\nr,a\nr,b\na,b\n", "line 4: 'b' has two parents"),
    "unknown noun": ("--wnids", "dog.n.01\nn00000001\n", "line 2: 'n00000001' is not a noun"),
    "empty": ("--csv", "", "the file is empty"),
    "no class": ("--wnids", "# nothing\n", "names no class"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(fedgrain, kind, tmp_path):
    option, content, message = BAD[kind]
    (tmp_path / "input").write_text(content)
    done = fedgrain("taxonomy", option, tmp_path / "input", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("fedgrain: error: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("taxonomy",), "one of the arguments"),
        (("taxonomy", "--dataset", "mnist"), "invalid choice: 'mnist'"),
        (("taxonomy", "--csv", "/nowhere/tree.csv"), "/nowhere/tree.csv: No such file"),
        (("taxonomy", "--dataset", "cifar100", "--max-children", "1"), "at least 2"),
        (("taxonomy", "--dataset", "cifar100", "--dag"), "--dag works only with --csv"),
        (("taxonomy", "--dataset", "cifar100", "--out", "/proc/none"), "/proc/none"),
        (("frobnicate",), "invalid choice"),
    ],
)
def test_bad_arguments_are_one_sentence(fedgrain, arguments, message):
    done = fedgrain(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_help_and_version_do_not_import_what_they_do_not_need():
    code = (
        "import sys\nfrom fedgrain.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'torch', 'matplotlib', 'networkx', 'PIL', 'pooch'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    for arguments in (["--help"], ["--version"], ["taxonomy", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True, text=True, env=dict(os.environ), check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "fedgrain" in done.stdout
