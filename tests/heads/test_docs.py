import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "heads.md"


def test_the_examples_run_and_print_what_they_say(capsys):
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(blocks) == 4
    names = {}
    printed = []
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), names)
        printed.append(capsys.readouterr().out.split())
    assert float(printed[0][0]) > 0.9  # it learned
    assert [float(value) for value in printed[1][1::2]] == pytest.approx(
        [0.0, 0.356675, 1.609438, 1.386294], abs=1e-5
    )  # 0, -log 0.7, -log 0.2, -log 0.25
    assert 1.0 <= float(printed[2][0]) <= 2.0
    example = blocks[0].split("tree = ")[1]
    assert len(example.strip().splitlines()) <= 20
