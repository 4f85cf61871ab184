"""Text from outside is one short, printable line; so is what the commands print of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrain.cli import main
from fedgrain.config.config import Config
from fedgrain.runs.run import run
from fedgrain.text import one_line

HOSTILE = "\x1b[2J\nfedgrain: all is well\r\x07\x9b\u202e\u2028\udcff"


def test_nothing_is_left_that_steers_a_terminal_or_begins_a_line() -> None:
    shown = one_line(HOSTILE)
    assert shown.isprintable()
    assert shown == r"\x1b[2J\nfedgrain: all is well\r\x07\x9b\u202e\u2028\udcff"


def test_plain_text_stays_and_spaces_are_spaces() -> None:
    assert one_line("Brahminy kite (Haliastur indus), 栗鳶, é") == (
        "Brahminy kite (Haliastur indus), 栗鳶, é"
    )
    assert one_line("milan\xa0noir\u3000!") == "milan noir !"


@pytest.mark.parametrize("text", ["x" * 20_000_000, "\n" * 20_000_000])
def test_long_text_is_cut(text: str) -> None:
    assert len(one_line(text)) == 200 and one_line(text).endswith("…")
    assert one_line("x" * 200) == "x" * 200


def test_an_error_of_a_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["taxonomy", "--csv", f"no\nfedgrain: all is well\x1b{'x' * 50}.csv"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "\x1b" not in err


def test_predict_prints_names_of_files_and_classes_as_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config(
        dataset="own_parts:hostile_names", clients=2, alpha=0.0, max_children=4, rounds=1, batch=64
    )
    run(config, tmp_path / "run", workers=1)
    photo = tmp_path / "a\nfedgrain: all is well\x1b[2J.png"
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(photo)
    code = main(["predict", str(tmp_path / "run"), str(photo)])
    told = capsys.readouterr()
    assert code == 0, told.err
    assert told.out.count("\n") == 1 and told.out.strip().isprintable()
    assert r"\x1b[31m" in told.out and r"\nfedgrain" in told.out
