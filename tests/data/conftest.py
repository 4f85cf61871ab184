"""Where the tests find data and keep what they decode."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from platformdirs import user_cache_dir

from fedgrain.data import LabelledImages, load_dataset

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of this test's own, and no other data in sight."""
    monkeypatch.setenv("FEDGRAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDGRAIN_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real archives, and a cache that outlives the run: decoding them takes a while."""
    if not SHARED.is_dir():
        pytest.skip(f"real data is not at {SHARED}")
    monkeypatch.setenv("FEDGRAIN_DATA", str(SHARED))
    monkeypatch.setenv("FEDGRAIN_CACHE", user_cache_dir("fedgrain-tests"))
    return SHARED


@pytest.fixture
def load_real(real_data: Path) -> Callable[..., LabelledImages]:
    def load(name: str, **options: Any) -> LabelledImages:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the ImageNet sample has one image a class
            return load_dataset(name, **options)

    return load


@pytest.fixture
def write_image() -> Callable[..., Path]:
    """Write a picture of one colour, or of given pixels."""

    def write(path: Path, pixels: Any = (200, 30, 60), size: int = 8, **options: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(pixels, tuple):
            pixels = np.broadcast_to(np.array(pixels, np.uint8), (size, size, 3))
        Image.fromarray(np.ascontiguousarray(pixels)).save(path, **options)
        return path

    return write
