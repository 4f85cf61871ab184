"""Small runs on small trunks: timm's test nets with random weights, and a net of the tests' own."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from fedgrain import Config
from fedgrain.trunks.timm_models import timm_net
from run_fixtures import SMALL, alone, python
from trunk_parts import random_weights

__all__ = ["alone", "python"]


@pytest.fixture(scope="session")
def weights_file(tmp_path_factory) -> Callable[[str], Path]:
    """Return a file of weights of one of timm's nets, made once."""
    if find_spec("timm") is None:
        pytest.skip("timm is not installed: pip install 'fedgrain[timm]'")
    folder = tmp_path_factory.mktemp("weights")

    def made(name: str) -> Path:
        path = folder / f"{name}.safetensors"
        if not path.exists():
            save_file(random_weights(timm_net(f"timm:{name}")), path)
        return path

    return made


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory) -> Iterator[Path]:
    """A cache of the session's own: features are made once in it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDGRAIN_CACHE", str(folder))
        yield folder


@pytest.fixture
def on_trunk(weights_file) -> Callable[..., Config]:
    """Make a config of a small run on a pretrained trunk, with other settings where given."""

    def make(**settings: Any) -> Config:
        trunk = {
            "net": "timm:test_efficientnet",
            "net_weights": str(weights_file("test_efficientnet")),
            "image_size": 32,
            "rounds": 2,
            "cycles": 1,
        }
        return Config(**{**SMALL, **trunk, **settings})

    return make
