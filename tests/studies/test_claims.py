"""What the library is for, on few images and one seed; scripts/glyphs_check.py shows it in full."""

import pytest

from fedgrain import Config, run


@pytest.mark.parametrize("head", ["cond-softmax", "flat-softmax"])
def test_projection_beats_the_papers_supervision_under_skew(head: str) -> None:
    found = {}
    for supervision in ("paper", "projection"):
        config = Config(
            dataset="own_parts:some_glyphs",
            head=head,
            supervision=supervision,
            alpha=0.9,
            rounds=6,
            batch=16,
            max_children=4,
        )
        found[supervision] = run(config).hf
    assert found["projection"] > found["paper"] + 0.02
