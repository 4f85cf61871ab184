"""A site's name, its key and the name on its certificate, without any server."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from fedgrain.cli import main

TREE = "parent,child\nr,a\nr,b\na,a1\na,a2\nb,b1\nb,b2\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A federation of a museum and a zoo, and the museum's images."""
    place = tmp_path_factory.mktemp("federation")
    (place / "tree.csv").write_text(TREE)
    rows = ["path,label"]
    for number, label in enumerate(["a1", "a2", "b1", "b2"] * 3):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(place / f"{number}.png")
        rows.append(f"{number}.png,{label}")
    (place / "images.csv").write_text("\n".join(rows) + "\n")
    made = ["flower", "init", str(place / "out"), "--taxonomy", str(place / "tree.csv")]
    assert main([*made, "--site", "museum", "--site", "zoo", "--keys", "--port", "8123"]) == 0
    return place


def findings(place: Path, capsys: pytest.CaptureFixture[str], site: str, key: str) -> dict:
    capsys.readouterr()
    typed = ["flower", "check", "--app", str(place / "out" / "app")]
    typed += ["--images", str(place / "images.csv"), "--site", site, "--json"]
    code = main([*typed, "--key", str(place / "out" / "sites" / key / key)])
    found = {one["subject"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert code == (0 if all(one["good"] for one in found.values()) else 2)
    return found


def test_a_site_with_its_own_key_is_good(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(place, capsys, "museum", "museum")
    assert all(one["good"] for one in found.values())
    assert "the key belongs to museum" in found["identity"]["text"]


def test_no_such_site_with_anothers_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(place, capsys, "zo", "museum")
    assert not found["name"]["good"] and "'zo' is no site of the app" in found["name"]["text"]
    assert not found["identity"]["good"]
    assert "is of 'museum', not 'zo'" in found["identity"]["text"]


def test_a_site_with_anothers_key(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(place, capsys, "zoo", "museum")
    assert found["name"]["good"] and not found["identity"]["good"]


def test_the_commands_of_a_site_parse(place: Path) -> None:
    """COMMANDS.md has check and join of each site, with the ports."""
    text = (place / "out" / "COMMANDS.md").read_text()
    for site in ("museum", "zoo"):
        block = text.split(f"## Site {site}")[1].split("```")[1]
        check, join = (shlex.split(line) for line in block.splitlines() if "fedgrain" in line)
        assert check[:3] == ["fedgrain", "flower", "check"]
        assert check[check.index("--site") + 1] == check[check.index("--key") + 1] == site
        assert check[check.index("--server") + 1] == "127.0.0.1:8123"
        assert join[:3] == ["fedgrain", "flower", "join"]
        assert join[join.index("--port") + 1] == "9094"
