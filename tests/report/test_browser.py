"""The report in a real browser: Debian's chromium, driven by playwright.

Screenshots are kept in build/screenshots.
"""

import io

import pytest
from PIL import Image

from browsing import check_accessible, column, keep, needs_chromium
from fedgrain.models.predict_files import PredictedFile
from fedgrain.models.trained_model import Prediction
from fedgrain.pages.predictions_page import page_of_predictions
from reported_runs import BREAKS_OUT, SCRIPT

pytestmark = needs_chromium


@pytest.mark.parametrize("name", ["run", "study"])
def test_tables_and_plots_on_a_wide_screen(visit, name):
    page = visit(name)
    visible = page.locator(".plot:visible")
    assert visible.count() == 7
    for number in range(visible.count()):
        assert visible.nth(number).locator("svg.main-svg").first.bounding_box()["width"] > 600
    assert page.locator("table:visible").count() >= 2
    assert page.locator(".examples img").count() > 0
    assert all(page.evaluate("[...document.images].map(i => i.naturalWidth > 0)"))
    keep(page, f"{name}-1280")


def test_names_with_markup_are_shown_and_not_run(visit):
    page = visit("study")
    assert page.title() == f"study {SCRIPT} – fedgrain study"
    assert page.locator("h1").inner_text() == f"study {SCRIPT}"
    tree = page.locator("ul.tree")
    tree.evaluate("all => all.querySelectorAll('details').forEach(d => { d.open = true })")
    page.locator("details.same", has=tree).evaluate("one => { one.open = true }")
    assert SCRIPT in tree.inner_text()
    assert BREAKS_OUT in tree.inner_text()
    centre = page.locator("#sunburst .slice").first
    assert f"all & {SCRIPT}" in centre.text_content()  # as plotly drew it
    assert page.locator("img[src='x']").count() == 0


def level(page):
    return page.evaluate("document.getElementById('sunburst')._fullData[0].level || ''")


def test_a_click_on_a_sector_zooms(visit):
    page = visit("run")
    before = level(page)
    chosen = page.evaluate(
        """() => {
          const trace = document.getElementById('sunburst').data[0];
          const inner = trace.ids.filter((id, i) => trace.parents[i] && trace.parents.includes(id));
          return inner[0];
        }"""
    )
    slices = page.locator("#sunburst .slice")
    numbers = slices.evaluate_all("all => all.map(one => one.__data__.data.data.id)")
    assert chosen in numbers
    slices.nth(numbers.index(chosen)).locator("path").dispatch_event("click")
    page.wait_for_function(
        "id => document.getElementById('sunburst')._fullData[0].level === id", arg=chosen
    )
    assert level(page) == chosen != before
    page.wait_for_timeout(1000)  # plotly's own animation
    shown = slices.evaluate_all("all => all.map(one => one.__data__.data.data.id)")
    assert len(shown) < len(numbers)
    keep(page, "run-zoomed")


def test_a_real_mouse_zooms_too(visit):
    page = visit("run")
    sector = page.locator("#sunburst .slice path").nth(1)
    sector.scroll_into_view_if_needed()
    text = page.locator("#sunburst .slice").nth(1).locator("text").bounding_box()
    page.mouse.click(text["x"] + text["width"] / 2, text["y"] + text["height"] / 2)
    page.wait_for_function("document.getElementById('sunburst')._fullData[0].level")


def test_colours_by_knowledge_when_asked(visit):
    page = visit("run")
    colours = "document.getElementById('sunburst').data[0].marker.colors"
    before = page.evaluate(colours)
    page.get_by_role("button", name="clients that know it").click()
    page.wait_for_function(f"({colours})[0] === 4")  # the root is known to all of 4
    assert page.evaluate(colours) != before
    accuracy = page.get_by_role("button", name="accuracy", exact=True)
    assert accuracy.get_attribute("aria-pressed") == "false"


def test_a_click_on_a_column_sorts(visit):
    page = visit("study")
    header = page.locator("#settings-1 thead th", has_text="HF").first
    place = header.evaluate("th => [...th.parentNode.children].indexOf(th)")
    before = column(page, "settings-1", place)
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    falling = column(page, "settings-1", place)
    assert falling == sorted(before, key=float, reverse=True) != before
    header.locator("button").press("Enter")  # from the keyboard as well
    assert header.get_attribute("aria-sort") == "ascending"
    assert column(page, "settings-1", place) == sorted(before, key=float)


def test_another_alpha_is_chosen(visit):
    page = visit("study")
    select = page.locator("select[data-shows=knowledge]")
    assert page.locator("#knowledge-1").is_visible()
    select.select_option(label="alpha 0")
    page.wait_for_selector("#knowledge-2 svg.main-svg")
    assert page.locator("#knowledge-1").is_hidden()


def test_hover_shows_intervals_and_runs(visit):
    page = visit("study")
    plot = page.locator("#over-alpha-1")
    plot.scroll_into_view_if_needed()
    marker = plot.locator(".points path").first.bounding_box()
    page.mouse.move(marker["x"] + marker["width"] / 2, marker["y"] + marker["height"] / 2)
    shown = plot.locator(".hoverlayer .hovertext")
    shown.first.wait_for()
    assert "±" in shown.first.text_content()
    assert "seed 47" in shown.first.text_content()


@pytest.mark.parametrize("name", ["run", "study"])
def test_readable_on_a_phone_and_tables_first(visit, name):
    page = visit(name, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table = page.locator("table:visible").first
    assert table.bounding_box()["y"] < page.locator(".plot:visible").first.bounding_box()["y"]
    lowest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('section.tables')].map(s => s.offsetTop))"
    )
    highest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('section.plots')].map(s => s.offsetTop))"
    )
    assert lowest < highest
    sizes = page.locator("td").evaluate_all(
        "all => all.map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 14
    keep(page, f"{name}-390")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["run", "study"])
def test_accessible(visit, name, width):
    page = visit(name, width)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    check_accessible(page)


def test_300_runs_open_in_seconds(visit):
    page = visit("large")
    took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < took < 10_000
    assert page.locator("#settings-1 tbody tr").count() == 300
    keep(page, "large-1280")


def test_the_page_of_predictions_is_accessible(browser, tmp_path):
    from axe_playwright_python.sync_playwright import Axe

    made = tmp_path / "predictions.html"
    made.write_text("".join(page_of_predictions(hand_made_rows(), "runs/one")))
    page = browser.new_page()
    problems = []
    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(made.as_uri())
        assert page.evaluate("[...document.images].every(i => i.naturalWidth === 128)")
        found = Axe().run(page).response
        assert len(found["passes"]) > 10
        assert [(v["impact"], v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        keep(page, f"predictions-{width}")
    page.get_by_role("link", name="kite").click()
    assert page.locator("h3:target").inner_text().startswith("kite")
    assert problems == []
    page.close()


def hand_made_rows():
    """Pictures of a few colours in three classes, and a file that could not be read."""
    rows = []
    for number in range(9):
        into = io.BytesIO()
        Image.new("RGB", (128, 128), (25 * number, 90, 200)).save(into, format="JPEG")
        names = ("animal", "bird", ("kite", "owl", SCRIPT)[number % 3])
        found = Prediction(names, names, (1.0, 0.9, number / 10))
        rows.append(PredictedFile(f"photos/a/long/way/{number}.jpg", found, "", into.getvalue()))
    return [*rows, PredictedFile("photos/broken.jpg", None, "not an image of the formats PNG")]
