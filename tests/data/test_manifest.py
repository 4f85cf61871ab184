"""Mistakes in a manifest are told at once, case and spaces forgiven, and a copy is corrected."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrain.cli import main
from fedgrain.errors import DataError
from fedgrain.folders.folder import load_listed
from fedgrain.folders.folder_report import report_folder
from fedgrain.folders.labels import Labels
from fedgrain.folders.manifest import read_manifest
from fedgrain.folders.manifest_fix import fix_manifest
from fedgrain.folders.mistakes import ManifestError
from fedgrain.images.decode import Decoding
from fedgrain.taxonomy import Taxonomy, read_csv

TREE = "parent,child,name\nanimal,bird,bird\nanimal,cat,Cat\nbird,n1,Brahminy kite\nbird,n2,owl\n"


@pytest.fixture
def site(tmp_path, cache, write_image) -> Path:
    folder = tmp_path / "site"
    for number in range(8):
        pixels = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
        write_image(folder / f"{number}.png", pixels)
    (folder / "taxonomy.csv").write_text(TREE)
    return folder


def manifest(site: Path, *rows: str, header: str = "path,label,client,split") -> Path:
    path = site / "images.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def tree(site: Path) -> Taxonomy:
    return read_csv(site / "taxonomy.csv")


WRONG = (
    "0.png,owll,zoo,train",
    "1.png,owll,zoo,train",
    "2.png,bird,zoo,tset",
    "0.png,owl,zoo,train",
    "3.png,,zoo,train",
    "4.png,owl,zoo",
    "9.png,owl,zoo,train",
    "10.png,owl,zoo,train",
    "5.png,owl,zoo,train",
)


def test_all_mistakes_at_once_grouped_by_word(site):
    path = manifest(site, *WRONG)
    with pytest.raises(ManifestError) as caught:
        load_listed(site, None, None, Decoding(8))
    told = str(caught.value)
    assert "\n" not in told
    assert told.startswith(f"{path}: 6 mistakes in 8 rows: (1) line 7: 3 fields where the header ")
    for part in (
        "line 2: the label 'owll' is not a node of the taxonomy, by id, name or synonym (2 rows); "
        "did you mean 'owl'?",
        "line 4: there is no split 'tset'; did you mean 'test'?",
        "line 5: '0.png' is also at",
        "line 6: the label is empty",
        "line 8: the image",
        "is not there (nor are 1 more images)",
        "fedgrain data fix",
    ):
        assert part in told
    assert sum(mistake.count for mistake in caught.value.mistakes) == 8


def test_a_thousand_wrong_words_are_one_short_message(site):
    manifest(site, *(f"{number}.png,word {number},zoo," for number in range(1000)))
    with pytest.raises(ManifestError, match=r"1001 mistakes in 1,000 rows") as caught:
        load_listed(site, None, None, Decoding(8))
    assert "and 981 more mistakes" in str(caught.value) and len(str(caught.value)) < 5000


def test_case_and_spaces_are_forgiven_with_a_note(site):
    manifest(
        site,
        "0.png,BRAHMINY  Kite,Zoo,Train",
        "1.png, cat ,zoo,VAL",
        "2.png,N2,zoo,",
        "3.png,Animal,zoo,test",
        header="Path,LABEL,client,Split",
    )
    with pytest.warns(UserWarning, match="read regardless of case, spaces and accents") as told:
        rows = read_manifest(site / "images.csv", tree(site))
    ids = tree(site).ids
    assert [ids[label] for label in rows.labels] == ["n1", "cat", "n2", "animal"]
    assert rows.splits == ("train", "validation", "train", "test")
    assert rows.clients == ("zoo",) * 4
    (note,) = [str(warning.message) for warning in told]
    for part in (
        "'BRAHMINY  Kite' as 'Brahminy kite' (1 row)",
        "the client 'Zoo' as 'zoo' (1 row)",
        "the split 'VAL' as 'validation' (1 row)",
        "the column 'Path' as 'path'",
    ):
        assert part in note


def test_what_is_right_gives_no_note(site):
    manifest(site, "0.png,n1,zoo,train", "1.png,owl,Ulm,", "2.png,Cat,zoo,test", "3.png,cat,zoo,")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = read_manifest(site / "images.csv", tree(site))
    assert len(rows.paths) == 4


def test_names_that_only_case_tells_apart_are_not_mixed_up():
    both = Taxonomy.from_edges([("all", "Turkey"), ("all", "turkey")])
    labels = Labels(both)
    assert labels.find("Turkey").nodes != labels.find("turkey").nodes
    assert len(labels.find("TURKEY").nodes) == 2


def test_the_nearest_names_in_a_large_tree():
    ids = [f"species {number:05} of genus {number % 97}" for number in range(16_000)]
    labels = Labels(Taxonomy.from_edges([("life", name) for name in ids]))
    assert labels.nearest("Specis 01234 of genus 70")[0] == "species 01234 of genus 70"
    assert labels.nearest("zzzz") == []


def test_a_corrected_copy_and_what_is_left(site):
    path = manifest(
        site,
        "0.png,BIRD,Zoo,train",
        "1.png,owll,zoo,tset",
        "2.PNG,owl,zoo,",
        "3.png,quetzal,zoo,train",
        "77.png,owl,zoo,train",
        "4.png,owl,zoo,train",
        "4.png,owl,zoo,train",
        "5.png,owl",
    )
    before = path.read_bytes()
    fixed = fix_manifest(path, tree(site), site / "fixed.csv")
    assert path.read_bytes() == before
    assert (site / "fixed.csv").read_text().splitlines() == [
        "path,label,client,split",
        "0.png,bird,zoo,train",
        "1.png,owl,zoo,test",
        "2.png,owl,zoo,",
        "3.png,quetzal,zoo,train",
        "4.png,owl,zoo,train",
        "5.png,owl",
    ]
    assert fixed.changes == {
        "label 'BIRD' to 'bird'": 1,
        "client 'Zoo' to 'zoo'": 1,
        "label 'owll' to 'owl'": 1,
        "split 'tset' to 'test'": 1,
        "image '2.PNG' to '2.png'": 1,
        "row left out, its image is not there": 1,
        "row that repeats another left out": 1,
    }
    assert fixed.missing == ["77.png"]
    assert len(fixed.left) == 2
    assert "line 5: the label 'quetzal' is not a node" in fixed.left[1]


def test_the_copy_can_be_elsewhere_but_never_the_manifest_itself(site, tmp_path):
    path = manifest(site, "0.png,OWL,zoo,train")
    with pytest.raises(DataError, match="never changed"):
        fix_manifest(path, tree(site), path)
    fix_manifest(path, tree(site), tmp_path / "other" / "copy.csv")
    copied = read_manifest(tmp_path / "other" / "copy.csv", tree(site))
    assert copied.paths[0].resolve() == (site / "0.png").resolve()


def test_fix_on_the_command_line(site, capsys):
    manifest(site, "0.png,OWL,zoo,train", "1.png,quetzal,zoo,train")
    assert main(["data", "fix", "--root", str(site)]) == 3
    out = capsys.readouterr().out
    assert f"wrote {site / 'images-fixed.csv'}: 2 rows" in out
    assert "label 'OWL' to 'owl' (1 row)" in out and "left for you:\n  line 3: the label" in out
    manifest(site, "0.png,owl,zoo,train")
    before = (site / "images-fixed.csv").read_bytes()
    assert main(["data", "fix", "--root", str(site), "--json"]) == 2
    said = f"{site / 'images-fixed.csv'} is already there; --replace writes over it"
    assert said in capsys.readouterr().err
    assert (site / "images-fixed.csv").read_bytes() == before
    assert main(["data", "fix", "--root", str(site), "--json", "--replace"]) == 0


def test_rows_that_mean_the_same_repeat_each_other(site):
    """By id and by name, and with the split that an empty field stands for."""
    path = manifest(
        site, "0.png,n1,zoo,train", "0.png,Brahminy kite,zoo,", "1.png,owl,zoo,", "1.png,n1,zoo,"
    )
    fixed = fix_manifest(path, tree(site), site / "copy.csv")
    assert fixed.changes == {"row that repeats another left out": 1}
    assert fixed.rows == 3 and len(fixed.left) == 1 and "two rows that differ" in fixed.left[0]


def test_a_report_of_the_folder(site, write_image):
    """Counted by hand: copies of a file and of a picture, across splits and sites."""
    (site / "same.png").write_bytes((site / "0.png").read_bytes())
    big = np.random.default_rng(9).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    photo = Image.fromarray(big).resize((80, 60), Image.Resampling.BICUBIC)
    photo.save(site / "photo.png")
    photo.resize((40, 30)).convert("RGBA").save(site / "small.png")
    photo.rotate(90, expand=True).convert("L").save(site / "grey.png")
    exif = Image.Exif()
    exif[0x0112] = 3
    photo.save(site / "turned.jpg", exif=exif)
    (site / "broken.png").write_bytes(b"nothing")
    manifest(
        site,
        "0.png,n1,zoo,train",
        "same.png,cat,zoo,test",
        "photo.png,owl,zoo,train",
        "small.png,bird,lab,validation",
        "grey.png,bird,lab,train",
        "turned.jpg,bird,lab,train",
        "broken.png,bird,lab,train",
    )
    with pytest.warns(UserWarning, match="1 of 7 images cannot be read"):
        listed = load_listed(site, None, None, Decoding(32, 1.0))
    report = report_folder(listed)
    assert report.images == {
        "lab": {"train": 3, "validation": 1},
        "zoo": {"train": 2, "test": 1},
    }
    assert (report.labels[0].id, report.labels[0].by_site) == ("bird", {"lab": 4})
    assert report.depths == {1: {"lab": 4, "zoo": 1}, 2: {"zoo": 2}}
    assert report.unused_leaves == 0
    assert report.sizes[(6, 6)] == 2 and report.sizes[(60, 80)] == 1
    assert report.kinds == {"colour": 4, "colour with transparency": 1, "grey": 1}
    assert report.turned == 1
    equal, similar = report.copies
    assert (equal.rows, equal.leaked, equal.same_bytes) == ((0, 1), (1,), True)
    assert (equal.several_sites, equal.contradictory) == (False, True)
    assert (similar.rows, similar.leaked, similar.same_bytes) == ((2, 3), (3,), False)
    assert (similar.several_sites, similar.contradictory) == (True, False)


def test_show_begins_with_what_a_data_manager_needs(site, capsys):
    (site / "same.png").write_bytes((site / "0.png").read_bytes())
    (site / "broken.png").write_bytes(b"nothing")
    manifest(
        site,
        "0.png,n1,zoo,train",
        "same.png,n1,lab,test",
        "1.png,bird,lab,train",
        "broken.png,cat,lab,train",
    )
    show = ["data", "show", "--dataset", "folder", "--root", str(site), "--size", "16"]
    assert main(show) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "images per site",
        "  site       train  test  all",
        "  lab            2     1    3",
        "  zoo            1     0    1",
        "  all sites      3     1    4",
    ]
    text = "\n".join(lines)
    assert "  Brahminy kite      2    1    1    2" in text
    assert "labels with a single image: 2; leaves without one: 1" in text
    assert "not images: 1" in text and "broken.png (not an image" in text
    assert "LEAKAGE: 1 copy of training images" in text
    assert main([*show, "--max-unreadable", "0.01"]) == 2  # as a run would
    assert main([*show, "--json"]) == 0


SYNONYMS = (
    "parent,child,name,synonyms,rank\n"
    "animal,puma,Puma concolor,cougar | mountain lion,species\n"
    "animal,falcon,Falco vespertinus,kék vércse;vörös vércse,species\n"
    "animal,jaguar,Panthera onca,big cat,species\nanimal,tiger,Panthera tigris,big cat|puma,\n"
)


def test_a_label_may_be_a_synonym_whatever_its_case_and_accents(site):
    (site / "taxonomy.csv").write_text(SYNONYMS)
    path = manifest(site, "0.png,Mountain  LION,zoo,", "1.png,kek vercse,zoo,", "2.png,puma,zoo,")
    with pytest.warns(UserWarning, match="'kek vercse' as 'Falco vespertinus'"):
        rows = read_manifest(path, tree(site))
    found = [tree(site).ids[node] for node in rows.labels]
    assert found == ["puma", "falcon", "puma"]  # an id comes before a synonym of another node
    with pytest.raises(ManifestError, match=r"ids jaguar \(under animal\), tiger \(under animal\)"):
        read_manifest(manifest(site, "0.png,Big Cat,zoo,"), tree(site))
    assert Labels(tree(site)).nearest("montain lion")[0] == "mountain lion"


def test_accents_count_where_the_tree_tells_words_apart_by_them():
    labels = Labels(Taxonomy.from_edges([("sin", "pêche"), ("sin", "péché")]))
    assert labels.find("PÊCHE").nodes == (labels._taxonomy.index("pêche"),)
    assert len(labels.find("peche").nodes) == 2
