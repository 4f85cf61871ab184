"""A net that fails at a site whose folder says so: FEDGRAIN_TEST_FAULTS names the folder.

A file ``hang`` there stops training (``hanging`` appears), a file ``nan`` spoils it. Nothing of
fedgrain or Flower is replaced.
"""

import os
import time
from pathlib import Path

import torch
from torch import Tensor

from own_parts import SmallNet


class Net(SmallNet):
    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images)
        faults = os.environ.get("FEDGRAIN_TEST_FAULTS")
        if not faults or not self.training:
            return logits
        if Path(faults, "hang").exists():
            Path(faults, "hanging").touch()
            time.sleep(600)
        return logits * torch.nan if Path(faults, "nan").exists() else logits
