"""Debian's chromium for tests, and where their screenshots go."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
SCREENSHOTS = Path(__file__).resolve().parents[1] / "build" / "screenshots"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
)


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """Open a browser with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(profile),
            executable_path=CHROMIUM,
            args=list(FLAGS),
            viewport={"width": 1280, "height": 900},
        )
        yield context
        context.close()


def keep(page, name):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def column(page, table, number):
    return page.locator(f"#{table} tbody tr").evaluate_all(
        "(rows, number) => rows.map(row => row.cells[number].innerText)", number
    )


def check_accessible(page):
    """Let axe look for serious problems."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response
    assert len(found["passes"]) > 10
    told = [(v["impact"], v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]]
    assert [one for one in told if one[0] in ("serious", "critical")] == []
