"""The measured order of review: the page has what the committed scores give."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_on_the_page_has_the_intervals_of_the_committed_scores(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from review_figure import ORDERS, SHARES, text

    seeds = list(json.loads((ROOT / "docs/results/review-order.json").read_text()).values())
    after = {order: [[own[order][str(s)] for own in seeds] for s in SHARES] for order in ORDERS}
    made = text([own["coarse"] for own in seeds], [own["none"] for own in seeds], after)
    assert "+0.0030 ± 0.0033 | +0.0015, +0.0033, +0.0041" in made  # 4.303 * 0.00133 / sqrt(3)
    page = (ROOT / "docs/refine.md").read_text()
    for line in made.splitlines():
        assert line.removesuffix(".") in page
