"""A report of 1,911 classes in a real browser."""

from browsing import check_accessible, column, keep, needs_chromium
from large_page import CLASSES

pytestmark = needs_chromium


def test_1911_classes_open_in_seconds(browser, reports):
    """Three seconds of the page's own thread until all is drawn: the clock on the wall would also
    count what other tests do meanwhile.
    """
    page = browser.new_page()
    session = browser.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(reports["1911"].as_uri())
    page.wait_for_selector("#sunburst .slice")
    metrics = session.send("Performance.getMetrics")["metrics"]
    took = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
    assert 0.1 < took < 3
    keep(page, "1911-1280")
    page.close()


def test_a_long_table_is_searched_sorted_and_continued(visit):
    page = visit("1911")
    rows = page.locator("#classes-2 tbody tr")
    assert rows.count() == 40
    page.locator("[data-more=classes-2]").click()
    assert rows.count() == 240
    header = page.locator("#classes-2 thead th").first
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    names = column(page, "classes-2", 0)
    assert names == sorted(names)
    page.locator("input[data-searches=classes-2]").fill("NUMBER 1910")
    assert rows.count() == 1
    assert "smiling face number 1910" in rows.first.inner_text()
    assert page.locator("#classes-2-shown").inner_text() == "1 of 1 rows"
    page.locator("input[data-searches=classes-2]").fill("")
    assert page.locator("#classes-2-shown").inner_text() == f"40 of {CLASSES:,} rows"


def test_accessible(visit):
    """The text of the tree is opened only at its top: below, 2,000 classes have the same markup."""
    page = visit("1911")
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => { d.open ||= !d.closest('.tree') })"
    )
    check_accessible(page)
