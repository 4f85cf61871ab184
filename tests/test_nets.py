import copy
import pickle
from functools import partial

import pytest
import torch
from torch import nn

from fedgrain.catalogue import NETS, check_pair
from fedgrain.errors import NetError
from fedgrain.nets import build_net
from fedgrain.nets.dropout import SeededDropout, set_dropout_generator


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("name", "outputs", "parameters"),
    [("cnn-32", 100, 213_796), ("cnn-64", 200, 668_424), ("squeezenet", 1000, 9_764_424)],
)
def test_parameter_counts_of_section_9(name, outputs, parameters):
    net = build_net(name, outputs, generator=generator())
    assert sum(weight.numel() for weight in net.parameters()) == parameters


@pytest.mark.parametrize(("name", "side"), [("cnn-32", 32), ("cnn-64", 64), ("squeezenet", 95)])
def test_shapes_down_to_the_smallest_image(name, side):
    net = build_net(name, 7, image_shape=(side, side, 3), generator=generator()).eval()
    assert net(torch.zeros(2, 3, side, side)).shape == (2, 7)
    assert net.head(net.features(torch.zeros(2, 3, side, side))).shape[:2] == (2, 7)
    smallest = {"cnn-32": 16, "cnn-64": 36, "squeezenet": 95}[name]
    tiny = build_net(name, 3, image_shape=(smallest, smallest + 3, 1), generator=generator()).eval()
    assert tiny(torch.zeros(1, 1, smallest, smallest + 3)).shape == (1, 3)
    with pytest.raises(NetError, match=f"at least {smallest} x {smallest} pixels"):
        build_net(name, 3, image_shape=(smallest - 1, 200, 3), generator=generator())


def test_cnn_32_is_the_papers_with_the_relu_before_the_pool():
    net = build_net("cnn-32", 10, generator=generator())
    first, second = (layer for layer in net.features if isinstance(layer, nn.Conv2d))
    images = torch.randn(4, 3, 32, 32, generator=generator(1))
    pool = nn.MaxPool2d(2)
    expected = net.head(pool(second(pool(first(images).relu())).relu()).flatten(1))
    torch.testing.assert_close(net(images), expected)


@pytest.mark.parametrize("name", ["cnn-32", "squeezenet"])
def test_weights_come_from_the_generator_alone(name):
    before = torch.random.get_rng_state()
    first = build_net(name, 5, generator=generator(3))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(99)
    try:
        again = build_net(name, 5, generator=generator(3))
    finally:
        torch.random.set_rng_state(before)
    other = build_net(name, 5, generator=generator(4))
    for key, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[key])
        assert not torch.equal(value, other.state_dict()[key])


def test_weights_have_pytorchs_default_distribution():
    net = build_net("cnn-32", 100, generator=generator())
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            bound = module.weight[0].numel() ** -0.5
            for values in (module.weight, module.bias):
                assert values.abs().max() <= bound
                assert values.abs().max() > 0.9 * bound
            deviation = module.weight.std().item()
            assert deviation == pytest.approx(bound / 3**0.5, rel=0.05)


def test_dropout_draws_from_its_generator():
    net = build_net("squeezenet", 4, image_shape=(95, 95, 3), generator=generator())
    images = torch.randn(2, 3, 95, 95, generator=generator(1))
    with pytest.raises(NetError, match="set_dropout_generator"):
        net(images)
    before = torch.random.get_rng_state()
    set_dropout_generator(net, generator(5))
    first, second = net(images), net(images)
    set_dropout_generator(net, generator(5))
    assert torch.equal(net(images), first)
    assert not torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin.eval()(images), net.eval()(images))
        with pytest.raises(NetError):
            twin.train()(images)
        net.train()


@pytest.mark.parametrize(("dimensions", "shape"), [(0, (40, 50)), (2, (40, 50, 3, 3))])
def test_dropout_keeps_the_mean(dimensions, shape):
    dropout = SeededDropout(0.25, dimensions)
    dropout.generator = generator()
    dropped = dropout(torch.ones(shape))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.04)
    if dimensions:
        assert torch.equal(dropped.amin((2, 3)), dropped.amax((2, 3)))


MODULE = """
import torch
from torch import nn
class Mine(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.Dropout(0.5))
        self.head = nn.Linear(6, outputs)
    def forward(self, images):
        return self.head(self.features(images))
class Alpha(Mine):
    def __init__(self, outputs):
        super().__init__(outputs)
        self.features = nn.Sequential(nn.Flatten(), nn.AlphaDropout(0.5))
def headless(outputs): return nn.Linear(3, outputs)
def number(outputs): return outputs
"""
OF_NO_USE = """
def nothing(): return None
def raising(outputs):
    raise KeyError("depth")
"""


def test_the_users_net(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(MODULE + OF_NO_USE)
    (tmp_path / "bad_nets.py").write_text("def (:\n")
    (tmp_path / "breaking_nets.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = torch.random.get_rng_state()
    net = build_net("my_nets:Mine", 4, generator=generator(3))
    assert torch.equal(torch.random.get_rng_state(), before)
    again = build_net("my_nets:Mine", 4, generator=generator(3))
    assert torch.equal(net.head.weight, again.head.weight)
    assert isinstance(net.features[2], SeededDropout)
    for name, message in {
        "my_nets:headless": "no module 'features'",
        "my_nets:number": "made a int",
        "my_nets:Alpha": "AlphaDropout would draw",
        "my_nets:none": "no callable 'none'",
        "my_nets:nothing": "it is called with the number of outputs",
        "my_nets:raising": r"is called \(KeyError: 'depth'; \S+my_nets.py, line \d+\)",
        "bad_nets:Mine": r"bad_nets.py, line 1: ",
        "breaking_nets:Mine": r"fails when it is imported \(ZeroDivisionError: division by zero\)",
        "cnn": "no net 'cnn'; choose one of cnn-32, cnn-64, squeezenet",
    }.items():
        with pytest.raises(NetError, match=message):
            build_net(name, 4, generator=generator())


def test_cond_sigmoid_on_squeezenet_is_refused():
    with pytest.raises(NetError, match="last ReLU"):
        check_pair("squeezenet", "cond-sigmoid", NetError)
    for name in NETS:
        check_pair(name, "cond-softmax", NetError)
    with pytest.raises(NetError, match="at least one output"):
        build_net("cnn-32", 0, generator=generator())


class Normed(nn.Module):
    """A net of the package with a norm, a layer without bias, and a weight of its own."""

    def __init__(self, outputs, shape, own=False):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))
        self.head = nn.Linear(4, outputs)
        if own:
            self.scale = nn.Parameter(torch.ones(1))


def test_norms_begin_as_constants_and_unknown_weights_are_refused(monkeypatch):
    def entry(own):
        make = partial(Normed, own=own)
        monkeypatch.setattr("fedgrain.nets.build.load_callable", lambda *_: make)
        return build_net("cnn-32", 2, generator=generator())

    norm = entry(False).features[1]
    assert torch.equal(norm.weight, torch.ones(4)) and torch.equal(norm.bias, torch.zeros(4))
    assert torch.equal(norm.running_var, torch.ones(4)) and norm.num_batches_tracked == 0
    with pytest.raises(NetError, match="weights of the net \\(Normed\\)"):
        entry(True)


def test_a_trunks_name_is_never_called_as_own_code():
    """Names of trunks need no --trust-code, so nothing else may be reached through them."""
    with pytest.raises(NetError, match="is a pretrained trunk, but this model has no trunk"):
        build_net("timm:layers.config.os._exit", 4, generator=torch.Generator())
