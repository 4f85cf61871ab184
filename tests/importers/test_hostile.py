"""Sources from strangers: archives that climb out, bombs, entities, pipes, too large, odd names."""

import io
import os
import random
import tarfile
import zipfile

import pytest

from attacks.harness import fedgrain
from attacks.mutations import TOKENS
from fedgrain.errors import DataError
from fedgrain.importers import ImportOptions, ReadOptions, bounded, import_data
from fedgrain.importers.markup import refuse_entities
from import_packages import OCCURRENCE
from import_samples import SAMPLES

LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><archive>&b;</archive>'


def packed(folder, ending, files):
    path = folder / f"archive.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))
    return path


@pytest.fixture
def archive(tmp_path):
    sample = next(sample for sample in SAMPLES if sample.name == "dwca occurrences")
    sample.write(tmp_path)
    return tmp_path, {name.removeprefix("archive/"): text for name, text in OCCURRENCE.items()}


@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_a_packed_archive_is_read_as_its_folder_is(archive, ending):
    folder, files = archive
    media = ImportOptions(ReadOptions(images=folder / "media"))
    one = import_data("dwca", [packed(folder, ending, files)], folder / "one", media)
    inside = {f"0012-240101/{name}": text for name, text in files.items()}
    two = import_data("dwca", [packed(folder, ending, inside)], folder / "two", media)
    assert one.label_counts() == two.label_counts() == {"Pica pica": 1, "Corvidae": 2, "Pica": 1}


def test_archives_cannot_climb_out_or_fill_the_disk(archive):
    folder, files = archive
    with pytest.raises(DataError, match="would be written outside its folder"):
        import_data("dwca", [packed(folder, "zip", {"../x": "pwned", **files})], folder / "o")
    with pytest.raises(DataError, match="decompression bomb"):
        import_data("dwca", [packed(folder, "zip", {"x": "0" * 40_000_000})], folder / "o")
    (folder / "archive.zip").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(DataError, match="the archive is damaged"):
        import_data("dwca", [folder / "archive.zip"], folder / "o")
    assert not (folder / "o").exists() and not (folder / "x").exists()


def test_links_in_an_archive_s_folder_are_refused(archive):
    folder, _ = archive
    secret = folder / "secret.txt"
    secret.write_text("id\n")
    (folder / "archive/occurrence.txt").unlink()
    (folder / "archive/occurrence.txt").symlink_to(secret)
    with pytest.raises(DataError, match=r"'occurrence\.txt' lies outside the archive"):
        import_data("dwca", [folder / "archive"], folder / "o")


@pytest.mark.parametrize("place", ["meta.xml", "dataset/0815.xml"])
def test_entities_are_refused_wherever_xml_is_read(archive, place):
    folder, _ = archive
    (folder / "archive/dataset").mkdir()
    (folder / "archive" / place).write_text(LAUGHS)
    with pytest.raises(DataError, match="declares a document type"):
        import_data("dwca", [folder / "archive"], folder / "o")
    with pytest.raises(DataError, match="declares a document type"):
        refuse_entities(LAUGHS.encode("utf-16"), "x")


def test_a_file_that_is_too_large_or_a_pipe_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "a.json").write_text("[" + "1," * 100 + "1]")
    monkeypatch.setattr(bounded, "MAX_BYTES", 100)
    with pytest.raises(DataError, match=r"a\.json: .* is the most that is read; split it"):
        import_data("coco", [tmp_path / "a.json"], tmp_path / "o")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="a named pipe where a file is wanted"):
        import_data("table", [tmp_path / "pipe.csv"], tmp_path / "o")


def test_folders_of_any_name_are_read_or_told(tmp_path):
    generator = random.Random(1)
    root = tmp_path / "photos"
    made = 0
    for token in [*TOKENS, b" ", b"\xff\xfe", "ä".encode(), b"a,b", b'"q"', b"train\n"] * 2:
        name = token.replace(b"/", b"").replace(b"\x00", b"")[: generator.randrange(1, 200)]
        if name in (b"", b".", b".."):
            continue
        place = root / os.fsdecode(name)
        place.mkdir(parents=True, exist_ok=True)
        (place / os.fsdecode(name[:50] + b".png")).touch()
        made += 1
    told = fedgrain("import", "folders", tmp_path / "photos", "--out", tmp_path / "o").judged()
    assert told.code == 0 and "cannot" in told.out and made > 20
    shown = fedgrain("taxonomy", "--csv", tmp_path / "o/taxonomy.csv").judged()
    assert shown.code == 0


def test_folders_that_are_not_entered_are_told(tmp_path, monkeypatch):
    """A link to a folder is left out with its place; a folder that cannot be opened ends it."""
    for place in ("photos/cat", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "1.png").touch()
    (tmp_path / "photos/dog").symlink_to(tmp_path / "elsewhere")
    account = import_data("folders", [tmp_path / "photos"], tmp_path / "o")
    left = account.reading.skipped["a link to a folder is not followed"]
    assert left.count == 1 and left.where == [str(tmp_path / "photos/dog")]
    assert account.label_counts() == {"cat": 1}

    opened = os.scandir

    def closed(path):  # tests may run as root, who may enter every folder
        if str(path).endswith("photos/cat"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path)

    monkeypatch.setattr("os.scandir", closed)
    with pytest.raises(DataError, match=r"photos/cat: Permission denied; no image of it is read"):
        import_data("folders", [tmp_path / "photos"], tmp_path / "p")
    assert not (tmp_path / "p").exists()


def test_a_data_set_saved_in_torch_s_format_has_the_same_labels(tmp_path):
    """Its rows are tensors then, and a class label is no whole number of Python."""
    import datasets

    sample = next(sample for sample in SAMPLES if sample.name == "saved dataset")
    sample.write(tmp_path)
    parts = datasets.load_from_disk(str(tmp_path / "saved"))
    parts["train"].with_format("torch").save_to_disk(str(tmp_path / "alone"))
    account = import_data("hf-dataset", [tmp_path / "alone"], tmp_path / "o")
    assert account.label_counts() == {"kite": 1, "owl": 2, "cat": 1}


def test_files_where_folders_are_wanted_and_the_other_way_round(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    for form in ("folders", "imagefolder", "dwca", "camtrap-dp", "hf-dataset"):
        assert (
            fedgrain("import", form, tmp_path / "a.txt", "--out", tmp_path / "o").judged().code == 2
        )
    for form in ("table", "paths", "speciesnet", "indented", "edges", "coco", "label-studio"):
        assert fedgrain("import", form, tmp_path, "--out", tmp_path / "o").judged().code == 2
    assert not (tmp_path / "o").exists()
    told = fedgrain("import", "tabel", tmp_path, "--out", tmp_path / "o").judged()
    assert "'tabel' is not a format; did you mean table?" in told.err


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("indented", "a\n  " + "b" * 200_000, "line 2: a name of 200,000 signs"),
        ("table", "," * 100_000 + "\n", "100,001 columns, and 2,000 are the most"),
        ("paths", "/".join("a" * 600), r"the tree is 600 levels deep, but only 500 are"),
        (
            "table",
            "genus,path,site\nFelis,1.png," + "s" * 2_000,
            "line 2: the site has 2,000 signs",
        ),
    ],
)
def test_what_no_table_could_hold_is_refused_at_once(tmp_path, form, text, told):
    (tmp_path / "a").write_text(text)
    with pytest.raises(DataError, match=told):
        import_data(form, [tmp_path / "a"], tmp_path / "o")
