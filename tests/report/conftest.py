"""Folders to report on, made once."""

import pytest

from browsing import chromium
from fedgrain.report.html import render, write_report
from large_page import large_page
from reported_runs import FOLDER, train_one, write_study


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    return train_one(tmp_path_factory.mktemp("trained") / FOLDER)


@pytest.fixture(scope="session")
def study_folder(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies") / "small"
    write_study(folder, trained)
    return folder


@pytest.fixture(scope="session")
def large_study_folder(trained, tmp_path_factory):
    """300 runs of 100 rounds."""
    folder = tmp_path_factory.mktemp("studies") / "large"
    write_study(folder, trained, methods=5, alphas=6, seeds=10, rounds=100)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture(scope="session")
def reports(trained, study_folder, large_study_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    made = {"run": trained, "study": study_folder, "large": large_study_folder}
    written = {
        name: write_report(of, trust_code=True, out=folder / f"{name}.html")
        for name, of in made.items()
    }
    written["1911"] = folder / "1911.html"
    written["1911"].write_text(render(large_page()), "utf-8")
    return written


@pytest.fixture
def visit(browser, reports):
    """Open a report; at the end nothing may have gone wrong or out."""
    opened = []

    def go(name, width=1280):
        page = browser.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        problems, requests = [], []
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        address = reports[name].as_uri()
        page.goto(address)
        page.wait_for_selector("#sunburst .slice")
        opened.append((page, address, problems, requests))
        return page

    yield go
    for page, address, problems, requests in opened:
        assert problems == []
        assert [url for url in requests if not url.startswith("data:")] == [address]
        page.close()
