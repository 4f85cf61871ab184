import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrain.data import load_dataset, partition_given
from fedgrain.errors import DataError, FedgrainError
from fedgrain.taxonomy import coarsen, read_csv

TREE = """parent,child,name
animal,bird,bird
animal,cat,cat
bird,n1,kite
bird,n2,robin
cat,n3,lion
cat,n4,tabby
thing,animal,animal
thing,toy,toy
toy,n5,kite
toy,n6,top
"""


@pytest.fixture
def site(tmp_path, cache, write_image) -> Path:
    """A folder with a tree and five images of different colours."""
    folder = tmp_path / "site"
    for number in range(5):
        write_image(folder / "pictures" / f"{number}.png", (number * 40, 100, 50))
    (folder / "taxonomy.csv").write_text(TREE)
    return folder


def manifest(site: Path, *rows: str, header: str = "path,label") -> Path:
    path = site / "images.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_labels_by_id_or_unique_name_at_any_depth(site):
    manifest(
        site,
        "pictures/0.png,n1,north,ann,train",
        "pictures/1.png,bird,south,bob,",
        "pictures/2.png,tabby,north,,test",
        '"pictures/3.png", thing ,,ann,validation',
        "",
        "pictures/4.png,toy,south,bob,train",
        header="path,label,client,annotator,split",
    )
    data = load_dataset("folder", root=site, size=8)
    assert [data.taxonomy.ids[label] for label in data.labels] == [
        "n1",
        "bird",
        "n4",
        "thing",
        "toy",
    ]
    assert data.split_names == ("train", "validation", "test")
    assert data.splits.tolist() == [0, 0, 2, 1, 0]
    assert data.client_names == ("north", "south")
    assert data.clients is not None and data.clients.tolist() == [0, 1, 0, -1, 1]
    assert data.annotator_names == ("ann", "bob")
    assert data.annotators is not None and data.annotators.tolist() == [0, 1, -1, 0, 1]
    assert data.images[:, 0, 0, 0].tolist() == [0, 40, 80, 120, 160]
    assert data.normalisation.mean == (0.5, 0.5, 0.5)
    named = data.subset(np.array([0, 1, 2, 4]))
    parts = partition_given(named.clients, named.client_names)
    assert [part.tolist() for part in parts] == [[0, 2], [1, 3]]


def test_without_the_columns_all_is_training_data_of_nobody(site):
    manifest(site, "pictures/0.png,n1")
    data = load_dataset("folder", root=site, size=8)
    assert (data.split_names, data.clients, data.annotators) == (("train",), None, None)


MISTAKES = {  # rows -> what the error says; every one names the file and the line
    "unknown label": (["pictures/0.png,n1", "pictures/1.png,robbin"],
                      r"images\.csv, line 3: the label 'robbin' is not .* did you mean 'robin'"),
    "ambiguous name": (["pictures/0.png,kite"],
                       r"images\.csv, line 2: several nodes are named 'kite'; .* ids n1 "
                       r"\(under bird\), n5 \(under toy\)"),
    "missing image": (["pictures/0.png,n1", "pictures/7.png,n1", "pictures/8.png,n1"],
                      r"images\.csv, line 3: the image '.*7\.png' is not there \(nor are 1 more"),
    "no path at all": (["pictures/\0.png,n1"], r"images\.csv, line 2: the image .* is not there"),
    "too few fields": (["pictures/0.png"], r"images\.csv, line 2: 1 fields where the header has 2"),
    "empty label": (["pictures/0.png,"], r"images\.csv, line 2: the label is empty"),
    "same image twice": (["pictures/0.png,n1", "pictures/1.png,n1", "pictures/0.png,n2"],
                         r"line 4: 'pictures/0\.png' is also at .*images\.csv, line 2; remove one"),
    "no rows": ([], r"images\.csv: the manifest lists no images"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_has_its_error(site, mistake):
    rows, message = MISTAKES[mistake]
    manifest(site, *rows)
    with pytest.raises(DataError, match=message) as error:
        load_dataset("folder", root=site)
    assert "\n" not in str(error.value)


def test_a_wrong_header_split_or_encoding(site):
    for header in ("file,label", "path", "path,label,colour", "path,label,label"):
        manifest(site, header=header)
        with pytest.raises(DataError, match=r"images\.csv, line 1: the header is"):
            load_dataset("folder", root=site)
    manifest(site, "pictures/0.png,n1,tset", header="path,label,split")
    with pytest.raises(DataError, match=r"line 2: there is no split 'tset'; did you mean 'test'"):
        load_dataset("folder", root=site)
    (site / "images.csv").write_bytes(b"path,label\npictures/0.png,\xff\n")
    with pytest.raises(DataError, match=r"line 2: byte 0xff is not UTF-8"):
        load_dataset("folder", root=site)
    manifest(site, '"pictures/0.png,n1')
    with pytest.raises(DataError, match=r"images\.csv, line 2: not a CSV file"):
        load_dataset("folder", root=site)


def test_what_is_not_there_is_named(site, tmp_path, cache):
    with pytest.raises(DataError, match="needs a path"):
        load_dataset("folder")
    with pytest.raises(DataError, match="nowhere: there is no such folder"):
        load_dataset("folder", root=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"other\.csv: there is no such manifest"):
        load_dataset("folder", root=site, manifest=site / "other.csv")
    (site / "taxonomy.csv").write_text("parent,child\na,b\nb,a\n")
    with pytest.raises(FedgrainError, match=r"taxonomy\.csv, line \d: the tree has a cycle"):
        load_dataset("folder", root=site)
    (site / "taxonomy.csv").unlink()
    with pytest.raises(DataError, match=r"taxonomy\.csv: there is no such taxonomy"):
        load_dataset("folder", root=site)


def test_a_folder_in_the_place_of_the_manifest(site):
    (site / "images.csv").unlink(missing_ok=True)
    (site / "images.csv").mkdir()
    with pytest.raises(DataError, match=r"images\.csv: a folder, but the list of images"):
        load_dataset("folder", root=site)


def test_the_users_tree_stays_unless_asked(site):
    (site / "taxonomy.csv").write_text("parent,child\na,b\na,c\nb,d\nb,e\n")
    manifest(site, "pictures/0.png,b", "pictures/1.png,d", "pictures/2.png,c")
    data = load_dataset("folder", root=site, size=8)
    assert data.taxonomy == read_csv(site / "taxonomy.csv")
    coarse = coarsen(data.taxonomy, 3).taxonomy
    assert "b" not in coarse
    moved = data.in_taxonomy(coarse)
    assert [coarse.ids[label] for label in moved.labels] == ["a", "d", "c"]


def test_exif_orientation_is_applied(site):
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:2] = 255  # white above; orientation 6 turns it to the right
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(site / "turned.jpg", exif=exif, quality=100)
    manifest(site, "turned.jpg,n1")
    image = load_dataset("folder", root=site, size=8).images[0]
    assert image[:, 7].min() > 200 and image[:, 0].max() < 50


def test_unreadable_images_are_skipped_with_their_labels(site):
    (site / "pictures" / "1.png").write_bytes(b"broken")
    manifest(site, *(f"pictures/{n}.png,{label}" for n, label in enumerate(["n1", "n2", "n3"])))
    with pytest.raises(DataError, match=r"1 of 3 images cannot be read.*1\.png.*max_unreadable"):
        load_dataset("folder", root=site, size=8)
    with pytest.warns(UserWarning, match=r"1 of 3 images cannot be read and were skipped"):
        data = load_dataset("folder", root=site, size=8, max_unreadable=0.4)
    assert [data.taxonomy.ids[label] for label in data.labels] == ["n1", "n3"]
    assert data.images[:, 0, 0, 0].tolist() == [0, 80]
    assert len(data.unreadable) == 1 and "1.png" in data.unreadable[0]


def test_a_changed_label_counts_and_a_changed_image_is_decoded_again(site, cache, write_image):
    manifest(site, "pictures/0.png,n1")
    load_dataset("folder", root=site, size=8)
    manifest(site, "pictures/0.png,n2")
    data = load_dataset("folder", root=site, size=8)
    assert data.taxonomy.ids[data.labels[0]] == "n2"
    assert len([path for path in (cache / "arrays").iterdir() if path.is_dir()]) == 1
    write_image(site / "pictures" / "0.png", (9, 9, 9), size=9)
    assert load_dataset("folder", root=site, size=8).images.max() == 9


def test_class_folders(tmp_path, cache, write_image):
    folder = tmp_path / "classes"
    write_image(folder / "robin" / "b.png")
    write_image(folder / "robin" / "deeper" / "a.JPG")
    write_image(folder / "n3" / "c.png")
    (folder / "n3" / "notes.txt").write_text("not an image")
    (folder / "taxonomy.csv").write_text(TREE)
    data = load_dataset("folder", root=folder, size=8)
    assert [data.taxonomy.ids[label] for label in data.labels] == ["n3", "n2", "n2"]
    assert data.split_counts == {"train": 3}
    (folder / "lyon").mkdir()
    with pytest.raises(DataError, match=r"classes/lyon: the label 'lyon' .* did you mean 'lion'"):
        load_dataset("folder", root=folder)


def test_class_folders_within_splits(tmp_path, cache, write_image):
    folder = tmp_path / "classes"
    write_image(folder / "train" / "robin" / "a.png")
    write_image(folder / "val" / "bird" / "b.png")
    write_image(folder / "test" / "n3" / "c.png")
    (folder / "taxonomy.csv").write_text(TREE)
    data = load_dataset("folder", root=folder, size=8)
    assert data.split_counts == {"train": 1, "validation": 1, "test": 1}
    assert data.taxonomy.ids[data.labels[data.split_indices("validation")[0]]] == "bird"


def test_an_empty_folder(tmp_path, cache):
    (tmp_path / "taxonomy.csv").write_text(TREE)
    with pytest.raises(DataError, match=r"found neither images\.csv nor class folders"):
        load_dataset("folder", root=tmp_path)


def test_a_pipe_or_a_device_among_the_images_is_refused(site):
    os.mkfifo(site / "pictures" / "pipe.png")
    path = manifest(site, "pictures/0.png,n1", "pictures/pipe.png,n2")
    with pytest.raises(DataError, match=rf"{path}, line 3: .*pipe.png' is a named pipe, not an"):
        load_dataset("folder", root=site, size=8)
    (site / "pictures" / "zero.png").symlink_to("/dev/zero")
    manifest(site, "pictures/zero.png,n1")
    with pytest.raises(DataError, match=r"zero\.png' is a device"):
        load_dataset("folder", root=site, size=8, allow_links=True)


def test_a_link_out_of_the_folder_is_followed_only_if_allowed(site, tmp_path, write_image):
    write_image(tmp_path / "private" / "secret.png", (1, 2, 3))
    (site / "pictures" / "link.png").symlink_to(tmp_path / "private" / "secret.png")
    path = manifest(site, "pictures/0.png,n1", "pictures/link.png,n2")
    with pytest.raises(DataError, match=rf"{path}, line 3: .*leads out of the folder by a link"):
        load_dataset("folder", root=site, size=8)
    data = load_dataset("folder", root=site, size=8, allow_links=True)
    assert data.images[1, 0, 0].tolist() == [1, 2, 3]
    with pytest.raises(DataError, match="leads out of the folder"):  # also with a filled cache
        load_dataset("folder", root=site, size=8)


def test_a_linked_folder_is_a_link_too(site, tmp_path, write_image):
    write_image(tmp_path / "private" / "secret.png", (1, 2, 3))
    (site / "more").symlink_to(tmp_path / "private")
    manifest(site, "more/secret.png,n2")
    with pytest.raises(DataError, match="leads out of the folder by a link"):
        load_dataset("folder", root=site, size=8)
    (site / "images.csv").unlink()
    (site / "more").rename(site / "n2")
    (site / "pictures").rename(site / "n1")
    with pytest.raises(DataError, match="leads out of the folder by a link"):
        load_dataset("folder", root=site, size=8)
    assert len(load_dataset("folder", root=site, size=8, allow_links=True)) == 6


def test_links_inside_the_folder_and_paths_named_openly_are_fine(site, tmp_path, write_image):
    elsewhere = write_image(tmp_path / "elsewhere" / "5.png", (1, 2, 3))
    (tmp_path / "linked site").symlink_to(site)  # the folder itself may be reached by a link
    (site / "pictures" / "again.png").symlink_to("0.png")
    manifest(site, "pictures/again.png,n1", f"{elsewhere},n2", "../elsewhere/../elsewhere/5.png,n3")
    for root in (site, tmp_path / "linked site"):
        assert len(load_dataset("folder", root=root, size=8)) == 3
