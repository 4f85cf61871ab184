"""One thread: what these tests compute is tiny, and other tests may run beside them."""

from collections.abc import Iterator

import pytest

from fedgrain.arithmetic import one_thread


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with one_thread():
        yield
