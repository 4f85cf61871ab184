"""A finished run over three sites, made once, and Debian's chromium."""

import shutil
import threading
from contextlib import contextmanager

import pytest

import fedgrain as library
from browsing import chromium
from fedgrain import Config
from fedgrain.refinement.review import review_server
from own_sites import write_sites


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with site/ (images, taxonomy, manifest) and run/ (a model of them)."""
    place = tmp_path_factory.mktemp("refined")
    site = write_sites(place / "site", train=6, test=2)
    config = Config(
        dataset="folder", data_root=str(site), head="flat-softmax", net="own_parts:SmallNet",
        image_size=32, rounds=8, lr=0.1, batch=8, seed=3,
    )  # fmt: skip
    library.run(config, place / "run", workers=1)
    return place


@pytest.fixture
def own(made, tmp_path):
    """A copy that a test may write to."""
    shutil.copytree(made, tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def serving():
    """Serve a review from a thread, as long as a block lasts."""

    @contextmanager
    def serve(asked):
        with review_server(asked) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    return serve
