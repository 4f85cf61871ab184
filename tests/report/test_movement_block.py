"""Who moved the model: a hostile and a broken site stand out, honest ones do not."""

from fedgrain.sections.movement_block import movement_block


def line(**sites: tuple[float, float | None]) -> dict:
    rows = [{"client": n, "moved": way, "agrees": cosine} for n, (way, cosine) in sites.items()]
    return {"clients": rows, "faults": []}


def test_honest_sites_do_not_stand_out():
    block = movement_block([line(zoo=(1.0, 0.4), museum=(2.0, 0.5), park=(1.5, 0.2))] * 3)
    assert block.text.endswith("No site stands out.")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in block.views[0].sheet.rows}
    assert rows["museum"][:2] == ["3", "1.333"]


def test_sites_an_operator_should_look_at():
    honest = {"zoo": (1.0, 0.4), "museum": (1.1, 0.5), "park": (0.9, 0.3)}
    rounds = [
        line(**honest, flipped=(1.0, -0.6), loud=(12.0 if n == 1 else 1.0, 0.1)) for n in (0, 1)
    ]
    text = movement_block(rounds).text
    assert "flipped moved it against the others in 2 of 2 rounds" in text
    assert "loud moved it 12.0 times as far as usual in one round" in text
    assert "zoo" not in text.partition("Look at:")[2]


def test_runs_of_older_versions_have_no_block():
    assert movement_block([{"clients": [{"client": "zoo", "loss": 1.0}], "faults": []}]) is None
