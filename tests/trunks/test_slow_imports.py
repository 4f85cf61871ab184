"""timm is imported without the compiler and trackers, which still work when they are used."""

from importlib.util import find_spec

import pytest

IMPORTED = """
import sys
from fedgrain.trunks.timm_models import timm_net
timm_net("timm:test_efficientnet")
slow = [name for name in ("torch._dynamo", "wandb") if name in sys.modules]
assert not slow, slow

import timm, torch, torchvision
assert timm.is_model("naflexvit_base_patch16_gap")  # which marks functions as not to be compiled
from timm.layers.typing import disable_compiler
marked = disable_compiler(lambda x: x + 1)
assert marked(torch.ones(1)) == 2 and "torch._dynamo" not in sys.modules

from torchvision.ops.roi_align import is_compile_supported
import torch._dynamo.utils as real
assert is_compile_supported("cpu") == real.is_compile_supported("cpu")
assert type(sys.modules["torch._dynamo.utils"]) is type(torch), sys.modules["torch._dynamo.utils"]
try:
    import wandb
except ImportError:
    pass
else:
    from timm.utils import summary
    assert summary.wandb.init is wandb.init
"""


@pytest.mark.skipif(find_spec("timm") is None, reason="pip install 'fedgrain[timm]'")
def test_timm_without_what_is_slow_to_import(python):
    done = python(IMPORTED)
    assert done.returncode == 0, done.stderr
