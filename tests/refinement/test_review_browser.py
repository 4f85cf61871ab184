"""The review in a real browser, by keyboard: from no answer to a manifest that a run takes.

Screenshots are kept in build/screenshots.
"""

import csv
import io

from browsing import check_accessible, keep, needs_chromium
from fedgrain import Config
from fedgrain.preparation.prepare import prepare
from fedgrain.refinement.review_session import Reviewing
from reported_runs import SCRIPT

pytestmark = needs_chromium


def test_from_an_empty_start_to_a_manifest_that_a_run_takes(browser, fedgrain, own, serving):
    from playwright.sync_api import expect  # its policy forbids wait_for_function, which evaluates

    expect.set_options(timeout=30_000)
    done = fedgrain("refine", own / "run", "--manifest", own / "site/images.csv", "--out",
                    own / "site/refined.csv", "--trust-code", PYTHONPATH="tests")  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = own / "site/reviewed.csv"
    page, problems = browser.new_page(), []
    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    with serving(Reviewing(own / "site/refined.csv", out, f"Ana {SCRIPT}")) as server:
        page.goto(server.url)
        page.wait_for_selector(".card:focus")
        expect(page.locator(".picture img").first).to_have_js_property("naturalWidth", 16)
        assert page.locator("#done").inner_text() == "0 of 24 images done"
        assert f"Ana {SCRIPT}" in page.locator("header").inner_text()
        check_accessible(page)
        keep(page, "review-1280")

        answered = page.locator(".card[data-answer]")
        first = page.locator(".card:focus").get_attribute("data-row")
        page.keyboard.press("Enter")  # accepts, and goes on to the next
        page.wait_for_selector(f'.card[data-row="{first}"][data-answer="accept"]')
        page.wait_for_selector(f'.card:focus:not([data-row="{first}"])')
        second = page.locator(".card:focus").get_attribute("data-row")
        page.keyboard.press("d")  # a name is picked by typing
        page.wait_for_selector("#names li[aria-selected=true]")
        assert page.locator("#name").input_value() == "d"
        assert page.locator("#names li[aria-selected=true]").inner_text().startswith("dog")
        assert page.locator("#name").get_attribute("aria-activedescendant") == "name-0"
        check_accessible(page)
        keep(page, "review-picker")
        page.keyboard.press("Enter")
        page.wait_for_selector(f'.card[data-row="{second}"][data-answer]')
        page.wait_for_selector(f'.card:focus:not([data-row="{second}"])')
        page.keyboard.press("?")
        page.wait_for_selector('.card[data-answer="unsure"]')
        assert page.locator("#said").inner_text() == "Unsure. 21 left."
        page.keyboard.press("Backspace")  # takes it back
        expect(answered).to_have_count(2)
        assert "2 of 24 images done" in page.locator("#done").inner_text()
        page.locator("button.all").first.click()
        expect(page.locator(".group").first.locator(".card:not([data-answer])")).to_have_count(0)
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        check_accessible(page)
        keep(page, "review-390")
        count = answered.count()
        page.reload()  # what is answered is not asked again
        page.wait_for_selector(".card:focus")
        assert answered.count() == 0
        assert f"{count} of 24 images done" in page.locator("#done").inner_text()
    page.close()
    assert problems == []

    rows = {row["path"]: row for row in csv.DictReader(io.StringIO(out.read_text()))}
    reviewed = [row for row in rows.values() if row["source"] == "review"]
    assert len(reviewed) == count
    assert {row["annotator"] for row in reviewed} == {f"Ana {SCRIPT}"}
    assert rows[server.session.rows[int(second)]["path"]]["label"] == "dog"
    trained = fedgrain(
        "run", "--dataset", "folder", "--data-root", own / "site", "--manifest", out, "--out",
        own / "next", "--net", "own_parts:SmallNet", "--image-size", "32", "--rounds", "1",
        PYTHONPATH="tests",
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    config = Config(dataset="folder", manifest=str(out), data_root=str(own / "site"),
                    net="own_parts:SmallNet", image_size=32)  # fmt: skip
    federation = prepare(config).federation
    (volunteers,) = (client for client in federation.clients if client.name == "volunteers")
    labels = [federation.taxonomy.ids[label] for label in volunteers.train.labels]
    assert labels.count("dog") >= 1
    assert len(volunteers.known) > 2  # the reviewer is a labeller apart from the volunteers
