"""``fedgrain predict`` with a guarantee, in sets, restricted, rolled up; ``fedgrain calibrate``."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrain import load
from fedgrain.cli import main
from own_parts import few_glyphs

SMALL = [
    *("--dataset", "own_parts:few_glyphs", "--net", "own_parts:SmallNet", "--clients", "2"),
    *("--alpha", "0.5", "--max-children", "4", "--batch", "16", "--rounds", "1"),
]
IMAGES = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A finished run, some pictures, and a manifest of them; half of the labels are coarse."""
    folder = tmp_path_factory.mktemp("trust")
    assert main(["run", *SMALL, "--out", str(folder / "run")]) == 0
    data = few_glyphs()
    (folder / "photos").mkdir()
    rows = []
    for number in range(IMAGES):
        Image.fromarray(data.images[number]).save(folder / "photos" / f"{number:02}.png")
        label = data.labels[number]
        label = data.taxonomy.parents[label] if number % 2 else label
        rows.append((f"photos/{number:02}.png", data.taxonomy.ids[label]))
    with (folder / "checked.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *rows])
    return folder


@pytest.fixture
def predicted(place, capsys):
    def run(*options: str) -> list[dict]:
        photos = str(place / "photos")
        code = main(["predict", "--trust-code", str(place / "run"), photos, "--json", *options])
        out, err = capsys.readouterr()
        assert code == 0, err
        return json.loads(out)["predictions"]

    return run


def depth(row):
    return len(row["path"])


def test_more_guarantee_never_goes_further_down_and_sets_hold_their_members(predicted, place):
    paths = [[node["id"] for node in row["path"]] for row in predicted("--guarantee", "0.5")]
    for guarantee in ("0.7", "0.9"):
        safer = [
            [node["id"] for node in row["path"]] for row in predicted("--guarantee", guarantee)
        ]
        assert all(lower[: len(upper)] == upper for lower, upper in zip(paths, safer, strict=True))
        paths = safer
    tree = load(place / "run", trust_code=True).taxonomy
    for row in predicted("--guarantee", "0.7", "--sets"):
        over = tree.index(row["path"][-1]["id"])
        assert row["set"]
        assert all(tree.is_ancestor(over, tree.index(one["id"])) for one in row["set"])


def test_what_is_not_in_the_list_never_appears(predicted, place):
    model = load(place / "run", trust_code=True)
    tree = model.taxonomy
    inner = next(int(n) for n in tree.internal if n and len(tree.children(n)) > 1)
    leaf = next(int(n) for n in tree.leaves[::-1] if not tree.is_ancestor(inner, n))
    (place / "here.txt").write_text(f"# here\n{tree.names[inner]}\n\n{tree.ids[leaf]}\n")
    (place / "here.csv").write_text(f"label,seen\n{tree.ids[inner]},3\n{tree.ids[leaf]},1\n")
    allowed = {leaf, *(int(n) for n in tree.leaves if tree.is_ancestor(inner, n))}
    rows = predicted("--only", str(place / "here.txt"))
    assert rows == predicted("--only", str(place / "here.csv"))
    assert {tree.index(row["path"][-1]["id"]) for row in rows} <= allowed
    plain = predicted()
    (place / "all.txt").write_text(tree.ids[0])
    assert predicted("--only", str(place / "all.txt")) == plain  # to the bit
    for row in predicted("--only", str(place / "here.txt"), "--guarantee", "0.5", "--sets"):
        for one in row["set"]:
            below = {int(n) for n in tree.leaves if tree.is_ancestor(tree.index(one["id"]), n)}
            assert below & allowed


def test_every_site_of_a_federation_has_its_own_list(predicted, place, capsys):
    """``evaluate`` answers each image by the list of its site, as that site's ``predict`` does."""
    data, run = few_glyphs(), str(place / "run")
    model = load(run, trust_code=True)
    tree, full = model.taxonomy, model.full_taxonomy
    lists = {"zoo": tree.leaves[::2], "museum": tree.leaves[1::2]}
    rows = [("client", "label"), *((s, tree.ids[n]) for s, own in lists.items() for n in own)]
    with (place / "lists.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    sites = [("zoo", "museum")[number % 3 > 0] for number in range(IMAGES)]
    labels = [full.ids[n] for n in data.labels[:IMAGES]]
    written = [(f"photos/{n:02}.png", labels[n], sites[n]) for n in range(IMAGES)]
    with (place / "sites.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "client"), *written])
    asked = ["--guarantee", "0.5", "--only", str(place / "lists.csv")]
    images = ["--manifest", str(place / "sites.csv"), "--json"]  # no splits: all rows
    assert main(["evaluate", "--trust-code", run, *asked, *images]) == 0
    found = json.loads(capsys.readouterr().out)
    held = {}
    for site, own in lists.items():
        answered = predicted(*asked, "--site", site)
        mine = [n for n in range(IMAGES) if sites[n] == site and tree.index(labels[n]) in own]
        ends = [answered[n]["path"][-1]["id"] for n in mine]
        held[site] = [
            bool(tree.is_ancestor(tree.index(end), tree.index(labels[n])))
            for end, n in zip(ends, mine, strict=True)
        ]
    assert {row["site"]: row["covered"] for row in found["per_site"]} == {
        site: pytest.approx(np.mean(own)) for site, own in held.items()
    }
    assert found["images"] == sum(map(len, held.values()))
    assert found["impossible_left_out"] == IMAGES - found["images"] > 0

    def with_lists(replaced: tuple[str, str]) -> int:
        text = (place / "lists.csv").read_text().replace(*replaced)
        (place / "spelled.csv").write_text(text)
        asked[-1] = str(place / "spelled.csv")
        return main(["evaluate", "--trust-code", run, *asked, *images])

    assert with_lists(("zoo,", "Zoö ,")) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert with_lists(("zoo,", "moon,")) == 2
    assert "spelled.csv: it lists the site 'moon', of which" in capsys.readouterr().err
    leaf = tree.ids[tree.leaves[0]]
    assert with_lists(((place / "lists.csv").read_text(), f"client,label\nzoo,{leaf}\n")) == 0
    assert "it has no list for museum, where everything counts" in capsys.readouterr().err


def test_a_level_rolls_up_to_the_likeliest_class_there(predicted, place):
    model = load(place / "run", trust_code=True)
    tree = model.taxonomy
    first = predicted("--level", "1")
    assert first == predicted("--level", "kind", "--ranks", "kind,sort")
    table = model.node_log_probs(sorted(map(str, (place / "photos").glob("*.png")))).numpy()
    top = tree.levels[1]
    wanted = [tree.ids[top[n]] for n in table[:, top].argmax(1)]
    assert [row["path"][-1]["id"] for row in first] == wanted
    assert all(depth(row) <= 2 for row in predicted("--level", "1", "--guarantee", "0.5"))


def test_strange_images_are_said_to_be_so(predicted, place, capsys):
    rows = predicted("--something-else", "0.5")
    strange = [row.get("strange", False) for row in rows]
    assert 0 < sum(strange) < IMAGES
    scores = np.array([row["strangeness"] for row in rows])
    assert scores[strange].min() > scores[~np.array(strange)].max()  # a threshold parts them
    assert all(depth(row) == 1 for row, odd in zip(rows, strange, strict=True) if odd)
    photos = [str(place / "photos"), "--something-else", "0.5"]
    assert main(["predict", "--trust-code", str(place / "run"), *photos]) == 0
    text = capsys.readouterr().out
    assert text.count(": not in this taxonomy") == sum(strange)


def test_a_calibration_of_ones_own_is_kept_and_its_guarantee_is_reported(place, predicted, capsys):
    run = str(place / "run")
    before = (place / "run" / "model.json").read_bytes()
    checked = ["--manifest", str(place / "checked.csv"), "--json"]
    assert main(["calibrate", "--trust-code", run, *checked]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["images"], facts["coarse"]) == (IMAGES, IMAGES // 2)
    kept = load(run, trust_code=True).calibration
    assert kept.images == IMAGES and kept.temperature == facts["temperature"]
    assert main(["calibrate", "--trust-code", run, *checked, "--per-depth"]) == 0
    by_depth = json.loads(capsys.readouterr().out)["temperature"]
    kept = load(run, trust_code=True).calibration.temperature
    assert kept == (by_depth if isinstance(by_depth, float) else tuple(by_depth))
    assert main(["evaluate", "--trust-code", run, "--guarantee", "0.8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    classes = found["per_class"]
    assert found["images"] == sum(row["images"] for row in classes)
    mean = np.average([r["covered"] for r in classes], weights=[r["images"] for r in classes])
    assert found["covered"] == pytest.approx(mean) and 0 <= mean <= 1
    assert main(["evaluate", "--trust-code", run, "--guarantee", "0.8"]) == 0
    assert "hold the truth" in capsys.readouterr().out
    assert main(["calibrate", "--trust-code", run]) == 0  # on the run's own validation images
    assert (place / "run" / "model.json").read_bytes() == before


def test_training_rows_do_not_calibrate_and_a_split_that_is_not_there_is_named(place, capsys):
    run = str(place / "run")
    before = (place / "run" / "model.json").read_bytes()
    header, *rows = (place / "checked.csv").read_text().splitlines()
    splits = ["train"] * 10 + ["validation"] * (IMAGES - 10)
    given = [f"{row},{split}" for row, split in zip(rows, splits, strict=True)]
    manifest = place / "splits.csv"
    manifest.write_text("\n".join([f"{header},split", *given]) + "\n")
    named = ["--manifest", str(manifest), "--json"]
    assert main(["evaluate", "--trust-code", run, *named]) == 2
    said = "splits.csv: no image has the split 'test'; choose one with --split: train, validation"
    assert said in capsys.readouterr().err
    assert main(["calibrate", "--trust-code", run, *named]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["images"] == IMAGES - 10
    assert "left out 10 images of the split train" in err
    manifest.write_text("\n".join([f"{header},split", *given[:10]]) + "\n")
    assert main(["calibrate", "--trust-code", run, *named]) == 2
    assert "every image has the split train" in capsys.readouterr().err
    (place / "run" / "model.json").write_bytes(before)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--guarantee", "0.999"], "needs at least 999 calibration images"),
        (["--guarantee", "1"], "between 0 and 1"),
        (["--sets"], "sets need a guarantee"),
        (["--level", "genus"], "no rank of --ranks"),
        (["--only", "nowhere.txt"], "there is no such list"),
        (["--only", "wrong.txt"], "wrong.txt, line 2: 'unicorn' is not in the model's taxonomy"),
        (["--only", "empty.txt"], "names no class"),
        (["--only", "wrong.csv"], "has no column label"),
        (["--only", "sites.csv", "--site", "moon"], "no list of 'moon'; it names zoo"),
        (["--site", "zoo"], "also give the list"),
    ],
)
def test_what_cannot_be_promised_is_one_sentence(options, said, place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    root = few_glyphs().taxonomy.ids[0]
    Path("wrong.txt").write_text(f"{root}\nunicorn\n")
    Path("empty.txt").write_text("# nothing\n")
    Path("wrong.csv").write_text("species\nowl\n")
    Path("sites.csv").write_text(f"client,label\nzoo,{root}\n")
    assert main(["predict", "--trust-code", "run", "photos", *options]) == 2
    out, err = capsys.readouterr()
    assert not out and said in err and len(err.splitlines()) == 1
