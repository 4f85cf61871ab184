"""Names, the user's own tree and reader, copies, and what a stranger's source may not reach."""

import csv
import json
import random

import pytest

from attacks.harness import fedgrain
from fedgrain.errors import DataError
from fedgrain.folders.folder import read_tree
from fedgrain.importers import ImportOptions, ReadOptions, import_data
from fedgrain.importers.rank_rows import fill_holes
from fedgrain.taxonomy import read_csv
from import_samples import SAMPLES

TREE = (
    "parent,child,name,synonyms\nlife,Animalia,,animals\nlife,Plantae,,\n"
    "Animalia,g1,Morus,gannet\nPlantae,g2,Morus,mulberry\nAnimalia,falcon,Falco,kék vércse\n"
    "Animalia,cat,Felis catus,\n"
)


@pytest.fixture
def photos(tmp_path):
    sample = next(sample for sample in SAMPLES if sample.name == "table")
    sample.write(tmp_path)
    (tmp_path / "tree.csv").write_text(TREE)
    return tmp_path


def words(folder, *rows):
    (folder / "site.csv").write_text("file,label\n" + "\n".join(rows) + "\n")
    return folder / "site.csv"


def labels(folder):
    with (folder / "images.csv").open() as file:
        return {row["path"].rpartition("/")[2]: row["label"] for row in csv.DictReader(file)}


def test_labels_mean_nodes_of_a_given_tree_by_name_synonym_and_lineage(photos):
    source = words(
        photos, "1.png,KEK VERCSE", "2.png,Animals/Morus", "3.png,plantae/x/Morus", "4.png,gannet"
    )
    options = ImportOptions(taxonomy=photos / "tree.csv")
    with pytest.raises(DataError, match=r"out/taxonomy\.csv is already there"):
        (photos / "out").mkdir()
        (photos / "out/taxonomy.csv").touch()
        import_data("paths", [source], photos / "out", options)
    (photos / "out/taxonomy.csv").unlink()
    account = import_data("paths", [source], photos / "out", options)
    assert account.words_file is None
    assert labels(photos / "out") == {"1.png": "falcon", "2.png": "g1", "3.png": "g2",
                                      "4.png": "g1"}  # fmt: skip
    assert read_tree(photos / "out", None) == read_csv(photos / "tree.csv")


def test_words_without_a_node_are_written_to_be_filled_in(photos):
    source = words(
        photos, "1.png,Felis cattus", "2.png,Morus", "3.png,Animalia/crow", "4.png,dog", "5.png,cat"
    )
    command = ["import", "paths", source, "--out", photos / "out", "--taxonomy",
               photos / "tree.csv", "--json"]  # fmt: skip
    done = fedgrain(*command)
    assert done.code == 3 and "4 words have no node" in done.err
    assert sorted(path.name for path in (photos / "out").iterdir()) == ["words.csv"]
    unknown = json.loads(done.out)["unknown_words"]
    assert unknown["Felis cattus"] == {"images": 1, "nearest": ["Felis catus"]}
    assert unknown["Morus"]["nearest"] == ["g1", "g2"]  # the candidates of an ambiguous name
    assert unknown["crow"]["nearest"][-1] == "Animalia"  # the class above it is in the tree

    filled = photos / "out" / "words.csv"
    meant = {"Felis cattus": "Felis catus", "Morus": "mulberry", "crow": "animals"}
    with filled.open() as file:
        rows = [{**row, "node": meant.get(row["word"], "")} for row in csv.DictReader(file)]
    with filled.open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    done = fedgrain(*command, "--names", filled)
    assert done.code == 3 and list(json.loads(done.out)["unknown_words"]) == ["dog"]
    text = filled.read_text()  # what was filled in is still there, and the word that is left
    assert "Morus,mulberry" in text and "dog,," in text
    filled.write_text(text.replace("dog,,", "dog,-,"))
    done = fedgrain(*command, "--names", filled)
    assert done.code == 0, done.err
    assert labels(photos / "out") == {"1.png": "cat", "2.png": "g2", "3.png": "Animalia",
                                      "5.png": "cat"}  # fmt: skip
    assert "the names file leaves 'dog' out" in done.out

    filled.write_text("word,node\ndog,wolff\nx,Morus\n")
    done = fedgrain(*command, "--names", filled, "--replace")
    assert done.code == 2 and "words.csv, line 2: 'wolff' is not a node" in done.err
    filled.write_text("word,node\ndog,Morus\n")
    done = fedgrain(*command, "--names", filled, "--replace")
    assert "line 2: several nodes are named 'Morus'; write one of the ids g1" in done.err


def test_unknown_words_can_be_left_out(photos):
    source = words(photos, "1.png,dog", "2.png,cat")
    options = ImportOptions(taxonomy=photos / "tree.csv", skip_unknown=True)
    account = import_data("paths", [source], photos / "out", options)
    assert labels(photos / "out") == {"2.png": "cat"}
    assert account.reading.skipped["its word has no node yet"].count == 1


def test_names_move_a_misspelt_class_of_the_source_itself(photos):
    source = words(photos, "1.png,bird/robin", "2.png,bird/robbin", "3.png,bird/owl")
    (photos / "names.csv").write_text("word,node\nRobbin,robin\nowl,owl\n")
    import_data("paths", [source], photos / "out", ImportOptions(names=photos / "names.csv"))
    assert labels(photos / "out") == {"1.png": "robin", "2.png": "robin", "3.png": "owl"}
    assert sorted(read_tree(photos / "out", None).ids) == ["bird", "owl", "robin"]


def test_a_reader_of_your_own(photos, monkeypatch):
    monkeypatch.syspath_prepend(photos)
    (photos / "my_reader.py").write_text(
        "from fedgrain.importers import Reading\n\n"
        "def read(sources, options):\n"
        "    reading = Reading()\n"
        "    for number, line in enumerate(sources[0].read_text().splitlines(), 1):\n"
        "        where = f'{sources[0]}, line {number}'\n"
        "        name, *path = line.split()\n"
        "        node = reading.classes.path(path, where)\n"
        "        reading.image(name, node, where, sources[0].parent, site='zoo')\n"
        "    return reading\n\n"
        "def broken(sources, options):\n    return 1 / 0\n"
    )
    (photos / "own.txt").write_text("1.png animal cat\n2.png animal dog\n")
    arguments = [photos / "own.txt", "--out", photos / "out"]
    done = fedgrain("import", "my_reader:read", *arguments)
    assert done.code == 0, done.err
    assert labels(photos / "out") == {"1.png": "cat", "2.png": "dog"}
    done = fedgrain("import", "my_reader:broken", *arguments, "--replace")
    assert done.code == 2 and "fails when it is called (ZeroDivisionError" in done.err


def test_a_stranger_s_source_reaches_no_other_folder(photos):
    (photos / "inside").mkdir()
    outside = photos / "1.png"
    (photos / "inside/link.png").symlink_to(outside)
    (photos / "inside/good.png").write_bytes(outside.read_bytes())
    source = words(photos / "inside", "good.png,a", "../1.png,a", f"{outside},a", "link.png,a",
                   "https://x.org/1.png,a", "site.csv,a", "no\x00thing.png,a")  # fmt: skip
    account = import_data("paths", [source], photos / "out")
    assert list(labels(photos / "out")) == ["good.png"]
    found = {reason.partition(":")[0]: left.count for reason, left in
             account.reading.skipped.items()}  # fmt: skip
    assert found == {
        "its image lies outside the folder of images; name another folder with --images": 2,
        "its image is a link out of the folder; --allow-links follows it": 1,
        "its image is a web address": 1,
        "its file is not an image fedgrain reads (.jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff, "
        ".gif)": 1,
        "its image is not there": 1,
    }
    wide = ImportOptions(ReadOptions(images=photos), allow_links=True, replace=True)
    source = words(photos, "1.png,a", "inside/link.png,a", "https://x.org/a%20b/2.png?w=3,a")
    import_data("paths", [source], photos / "out", wide)
    assert sorted(labels(photos / "out")) == ["1.png", "2.png", "link.png"]


def test_copied_images_make_a_folder_that_can_be_moved(photos):
    import_data("table", [photos / "t.csv"], photos / "out", ImportOptions(copy=True))
    (photos / "out").rename(photos / "moved")
    with (photos / "moved/images.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        assert row["path"].startswith("images/")
        copied = photos / "moved" / row["path"]
        assert copied.read_bytes() == (photos / copied.name).read_bytes()


def test_nothing_is_left_if_writing_fails(photos, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        import_data("table", [photos / "t.csv"], photos / "out", ImportOptions(copy=True))
    assert not [path for path in photos.iterdir() if path.name.startswith((".", "out"))]


def test_one_row_per_file_with_the_deepest_label_on_one_path(photos):
    source = words(photos, "1.png,a/b", "1.png,a", "2.png,a/b", "2.png,a/c", "3.png,a")
    account = import_data("paths", [source], photos / "out")
    assert labels(photos / "out") == {"1.png": "b", "3.png": "a"}
    assert account.reading.skipped["its file has labels that cannot all hold"].count == 2


def test_what_import_writes_it_reads_again(photos):
    import_data("table", [photos / "t.csv"], photos / "out")
    import_data("edges", [photos / "out/taxonomy.csv"], photos / "again")
    one, two = read_tree(photos / "out", None), read_tree(photos / "again", None)
    assert one == two and dict(one.synonyms) == dict(two.synonyms)


def test_no_image_left_is_an_error_that_says_why(photos):
    with pytest.raises(DataError, match=r"no image is left of 7: its image is not there \(7: "):
        import_data(
            "table", [photos / "t.csv"], photos / "out",
            ImportOptions(ReadOptions(images=photos / "out")),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_holes_that_other_rows_fill_give_the_tree_without_holes(seed):
    """Random tables: two families may share a genus' name, and then only full rows may use it."""
    generator = random.Random(seed)
    full = []
    for species in range(40):
        genus, family = species // 2, species // 6
        name = "Morus" if genus in (3, 11) else f"G{genus}"
        full.append((f"O{family // 3}", f"F{family}", name, f"{name} s{species}"))
    punched = []
    for row in full:
        depth = generator.randrange(2, 5)  # the labeller may stop at the genus
        cells = [cell if generator.random() < 0.6 else "" for cell in row[: depth - 1]]
        punched.append((*cells, row[depth - 1], *[""] * (4 - depth)))
    mixed = [*full, *punched]
    generator.shuffle(mixed)
    found, doubtful = fill_holes(mixed, 4)
    for cells, row in zip(punched, full, strict=True):
        depth = max(place for place in range(4) if cells[place])
        if cells in doubtful:
            assert cells[2] == "Morus" and not cells[3]  # a species is at one place only
        else:
            assert found[cells] == (*row[: depth + 1], *[""] * (3 - depth))
