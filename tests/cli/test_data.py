import json
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def places(tmp_path) -> dict[str, str]:
    return {"FEDGRAIN_DATA": str(tmp_path / "data"), "FEDGRAIN_CACHE": str(tmp_path / "cache")}


def test_show_prints_the_agreed_keys(fedgrain, places):
    done = fedgrain("data", "show", "--dataset", "glyphs", "--json", **places)
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout) == {
        "images": {"train": 5000, "test": 1000},
        "classes": 32,
        "nodes": 58,
        "depth": 6,
        "shape": [32, 32, 3],
        "labels_by_depth": {"3": 935, "4": 748, "5": 2433, "6": 1884},
        "clients": [],
        "annotators": [],
        "unreadable": [],
    }


def test_show_draws_contact_sheets(fedgrain, places, tmp_path):
    done = fedgrain("data", "show", "--dataset", "glyphs", "--out", tmp_path / "sheets", **places)
    assert done.returncode == 0 and "drew 26 contact sheets" in done.stderr
    assert "32 leaf classes in a tree of 58 nodes, depth 6" in done.stdout
    assert len(list((tmp_path / "sheets").glob("*.png"))) == 26


def test_show_a_folder_with_mistakes(fedgrain, places, tmp_path):
    from PIL import Image

    (tmp_path / "taxonomy.csv").write_text("parent,child\na,b\na,c\n")
    rows = ["path,label,client"]
    for number in range(4):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{'abcb'[number]},site {number % 2}")
    (tmp_path / "3.png").write_bytes(b"broken")
    (tmp_path / "images.csv").write_text("\n".join(rows))
    show = ("data", "show", "--dataset", "folder", "--root", tmp_path)
    done = fedgrain(*show, "--max-unreadable", "0.01", **places)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert "1 of 4 images cannot be read" in done.stderr and done.stderr.count("\n") == 1
    done = fedgrain(*show, "--max-unreadable", "0.3", "--size", "8", **places)
    assert done.returncode == 0
    assert done.stderr.startswith("fedgrain: warning: 1 of 4 images cannot be read")
    assert "a run skips at most 1% of the images" in done.stdout
    assert "2 clients: site 0, site 1" in done.stdout and "3.png (" in done.stdout
    assert "labels at depth 0        1" in done.stdout
    (tmp_path / "images.csv").write_text("path,label\n0.png,bb\n")
    done = fedgrain(*show, **places)
    assert done.returncode == 2 and "images.csv, line 2: the label 'bb'" in done.stderr


def test_list_says_what_is_found_where(fedgrain, places, tmp_path):
    done = fedgrain("data", "list", **places)
    assert done.returncode == 0
    assert "cifar100       not found; fedgrain data get cifar100" in done.stdout
    assert "glyphs         built in" in done.stdout
    archive = tmp_path / "data" / "cifar-100-python.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"")
    found = json.loads(fedgrain("data", "list", "--json", **places).stdout)
    assert found["searched"] == [places["FEDGRAIN_DATA"], places["FEDGRAIN_CACHE"]]
    assert found["found"]["cifar100"] == str(archive)
    assert found["found"]["imagenet"] is None


def test_what_is_missing_takes_one_sentence(fedgrain, places):
    done = fedgrain("data", "show", "--dataset", "cifar100", **places)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("fedgrain: error: cifar100 was not found in ")


def test_get_offline_takes_one_sentence(fedgrain, places):
    nobody = "http://127.0.0.1:9"  # the discard port: nobody listens
    done = fedgrain("data", "get", "cifar100", FEDGRAIN_MIRROR=nobody, **places)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "get cifar-100-python.tar.gz elsewhere and put it into" in done.stderr


def test_show_an_empty_archive(fedgrain, places, tmp_path):
    archive = tmp_path / "data" / "cifar-100-python.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(b"")
    done = fedgrain("data", "show", "--dataset", "cifar100", **places)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"{archive}: the archive is damaged" in done.stderr


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"real data is not at {SHARED}")
def test_show_the_real_thing(fedgrain):
    from platformdirs import user_cache_dir

    places = {"FEDGRAIN_DATA": str(SHARED), "FEDGRAIN_CACHE": user_cache_dir("fedgrain-tests")}
    done = fedgrain("data", "show", "--dataset", "cifar100", "--json", **places)
    told = json.loads(done.stdout)
    assert told["images"] == {"train": 50000, "test": 10000}
    assert (told["classes"], told["shape"]) == (100, [32, 32, 3])
