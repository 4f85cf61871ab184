"""Fewer layers, the same answers; and the same bits however many images come."""

import pytest
import torch
from torch import nn

from fedgrain.trunks.fused import fused, traced
from fedgrain.trunks.loading import probe_image
from fedgrain.trunks.timm_models import timm_net
from trunk_parts import random_weights


def _net(name: str) -> nn.Module:
    net = timm_net(f"timm:{name}")
    net.load_state_dict(random_weights(net))
    return net.eval().requires_grad_(False).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("name", ["test_efficientnet", "test_resnet"])
def test_no_batchnorm_is_left_and_tracing_changes_no_bit(name):
    net, image = _net(name), probe_image(32)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    made = fused(net, image)
    assert made is not net
    assert not any(isinstance(module, nn.BatchNorm2d) for module in made.modules())
    torch.testing.assert_close(made(image), net(image), rtol=1e-4, atol=1e-4)
    images = torch.rand(16, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    program = traced(made, images)
    assert program is not made
    assert torch.equal(program(images), made(images))
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


class _Twice(nn.Module):
    """The convolution's output is used beside the BatchNorm: it must not be fused."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = self.convolution(images)
        return self.norm(found) - 3 * found


def test_what_would_answer_otherwise_stays_as_it_is():
    net = _Twice().eval()
    with torch.no_grad():
        net.norm.running_mean.fill_(2)
    assert fused(net, probe_image(8)) is net


def test_what_cannot_be_traced_runs_as_it_is():
    class Odd(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images * round(float(images.sum()))  # a constant to the tracer

    net = Odd()
    assert traced(net, torch.rand(2, 3, 4, 4)) is net
