import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrain.calibration import fit_temperature
from fedgrain.catalogue import MARGINS
from fedgrain.errors import HeadError
from fedgrain.heads import HEADS, branch_dataset, build_head, supervise
from fedgrain.knowledge.labeller import labeller_model
from fedgrain.taxonomy import Taxonomy, dataset_taxonomy
from heads_by_hand import QUICK, SEEDS, ByHand, logits_for, random_knowledge
from strategies import tree_from, trees

NAMES = sorted(HEADS)


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_losses_and_probabilities_are_the_formulas(name, tree, seed):
    head, hand = build_head(name, tree), ByHand(tree)
    labels = torch.arange(len(tree))  # every node once, leaves and internal
    logits = logits_for(head, len(tree), seed)
    losses, log_probs = head.sample_losses(logits, labels), head.node_log_probs(logits)
    for row, theta in enumerate(logits.tolist()):
        assert losses[row].item() == pytest.approx(hand.loss(name, theta, row), abs=1e-6)
        assert log_probs[row].exp().tolist() == pytest.approx(hand.probs(name, theta), abs=1e-6)
    single = head.sample_losses(logits.float(), labels)
    torch.testing.assert_close(single.double(), losses, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(tree=trees(6, 2), seed=SEEDS)
def test_gradients_are_finite_differences(name, tree, seed):
    head = build_head(name, tree)
    labels = torch.arange(len(head.taxonomy))
    logits = logits_for(head, len(labels), seed).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: head.sample_losses(x, labels), [logits])
    assert torch.autograd.gradcheck(lambda x: head.node_log_probs(x)[:, 1:], [logits])


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(tree=trees(40, 2), seed=SEEDS, scale=st.sampled_from([1.0, 30.0, 1e4]))
def test_probabilities_are_ordered_along_the_tree(name, tree, seed, scale):
    head = build_head(name, tree)
    log_probs = head.node_log_probs(logits_for(head, 7, seed, scale, torch.float32))
    assert (log_probs[:, 0] == 0).all()
    assert (log_probs <= 0).all()
    parents = torch.tensor(tree.parents[1:].astype(np.int64))
    assert (log_probs[:, 1:] <= log_probs[:, parents]).all()
    probs = log_probs.double().exp()
    children = torch.zeros_like(probs).index_add(1, parents, probs[:, 1:])
    internal = torch.tensor(tree.internal.astype(np.int64))
    rest = (probs - children)[:, internal]
    if name in ("flat-softmax", "ps-softmax", "cond-softmax"):
        assert rest.abs().max() < 1e-5
    elif name != "cond-sigmoid":
        assert rest.min() > -1e-5


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(tree=trees(40, 2), seed=SEEDS)
def test_logits_of_ten_thousand_neither_overflow_nor_cancel(name, tree, seed):
    head = build_head(name, tree)
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed, 1e4, torch.float32).requires_grad_()
    head.loss(logits, labels).backward()
    assert logits.grad.isfinite().all()
    exact = head.sample_losses(logits.detach().double(), labels)
    losses = head.sample_losses(logits, labels)
    # ps-softmax first adds up to 40 logits of 1e4, which rounds at 1e-2
    atol = 0.1 if name == "ps-softmax" else 1e-2
    torch.testing.assert_close(losses.double(), exact, atol=atol, rtol=1e-5)
    assert head.node_log_probs(logits).isfinite().all()
    if "marginal" in head.supervisions:
        logits.grad = None
        head.marginal_losses(logits, labels).sum().backward()
        assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_over_the_samples_that_enter(name):
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2")])
    head = build_head(name, tree)
    a, a1, b = (tree.index(node) for node in ("a", "a1", "b"))
    logits = logits_for(head, 3, 1)
    labels = torch.tensor([a, a1, b])
    enters = head.enters(labels).tolist()
    assert enters == ([False, True, True] if name in ("flat-softmax", "ps-softmax") else [True] * 3)
    kept = torch.tensor(enters)
    expected = head.sample_losses(logits[kept], labels[kept]).mean()
    torch.testing.assert_close(head.loss(logits, labels), expected)
    if not all(enters):
        nothing = logits[:1].clone().requires_grad_()
        loss = head.loss(nothing, labels[:1])
        loss.backward()
        assert loss.item() == 0.0
        assert (nothing.grad == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_twelve_thousand_nodes_in_bounded_memory(name):
    """A wide and deep tree; batch x nodes x nodes would be 9 GB, and is refused by the limit."""
    rng = np.random.default_rng(0)
    chain = [(f"c{i:03d}", f"c{i + 1:03d}") for i in range(20)]
    wide = [("c005", f"w{i:05d}") for i in range(4000)]
    rest = [(f"w{int(rng.integers(4000)):05d}", f"x{i:05d}") for i in range(8000)]
    head = build_head(name, Taxonomy.from_edges(chain + wide + rest))
    labels = torch.tensor(rng.integers(0, len(head.taxonomy), 16))
    logits = logits_for(head, 16, 0, dtype=torch.float32).requires_grad_()
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for value in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(value, torch.Tensor):
                    largest = max(largest, value.numel() if not value.is_sparse else 0)
            return out

    with Watch():
        head.loss(logits, labels).backward()
        head.node_log_probs(logits)
    assert logits.grad.isfinite().all()
    assert largest <= 16 * len(head.taxonomy) * int(head.taxonomy.depth.max())


@pytest.mark.parametrize("name", NAMES)
def test_no_parameters_and_nothing_in_the_state(name):
    head = build_head(name, tree_from([0, 0, 1]))
    assert list(head.parameters()) == []
    assert head.state_dict() == {}
    logits, labels = logits_for(head, 4, 0), torch.arange(4)
    for twin in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert torch.equal(twin.loss(logits, labels), head.loss(logits, labels))


@pytest.mark.parametrize("name", NAMES)
def test_logits_of_another_width_are_refused(name):
    head = build_head(name, tree_from([0, 0, 1]))
    for shape in ((2, head.num_outputs + 1), (2, head.num_outputs - 1), (head.num_outputs,)):
        with pytest.raises(HeadError, match=f"takes logits .batch, {head.num_outputs}., not"):
            head.loss(torch.zeros(shape), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("name", NAMES)
def test_same_input_same_bits(name):
    """Also with another number of threads: sums over nodes stay within a sample."""
    tree = dataset_taxonomy("imagenet")
    head = build_head(name, tree)
    labels = torch.tensor(np.random.default_rng(0).integers(0, len(tree), 64))
    logits = logits_for(head, 64, 0, dtype=torch.float32).requires_grad_()
    threads = torch.get_num_threads()
    seen = []
    try:
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            logits.grad = None
            head.sample_losses(logits, labels).sum().backward()
            seen.append((logits.grad.clone(), head.node_log_probs(logits).detach()))
    finally:
        torch.set_num_threads(threads)
    for gradient, log_probs in seen[1:]:
        assert torch.equal(gradient, seen[0][0])
        assert torch.equal(log_probs, seen[0][1])


def test_names(tmp_path, monkeypatch):
    tree = tree_from([0, 0, 1])
    with pytest.raises(HeadError, match=r"no head 'softmax'; choose one of flat-softmax, ps-softm"):
        build_head("softmax", tree)
    (tmp_path / "my_heads.py").write_text(
        "from fedgrain.heads import FlatSoftmax as Mine\ndef other(taxonomy): return 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert build_head("my_heads:Mine", tree).num_outputs == len(tree.leaves)
    for spec, message in {
        "my_heads:other": "made a int",
        "my_heads:nothing": "no callable 'nothing'",
        "no_such_module:head": "cannot import 'no_such_module'",
        "my_heads:": "not of the form",
    }.items():
        with pytest.raises(HeadError, match=message):
            build_head(spec, tree)
    with pytest.raises(HeadError, match="only the node 'r'"):
        build_head("flat-softmax", Taxonomy.from_edges([], root="r"))


SAID = pytest.mark.filterwarnings("ignore:the label .* stands for no leaf")


@SAID
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_with_in_float32(name, dtype):
    """Logits of 6e4, near the largest float16: sums along a path and margins would be inf."""
    tree = tree_from([0, 0, 1, 1, 3, 3, 0])
    head = build_head(name, tree)
    labels = torch.arange(len(tree))
    logits = (logits_for(head, len(tree), 0).sign() * 6e4).to(dtype).requires_grad_()
    losses = {"paper": head.sample_losses}
    if "marginal" in head.supervisions:
        losses["marginal"] = head.marginal_losses
    for supervision, of_samples in losses.items():
        logits.grad = None
        assert torch.equal(of_samples(logits, labels), of_samples(logits.float(), labels))
        supervise(head, supervision).loss(logits, labels).backward()
        assert logits.grad.isfinite().all()
    assert torch.equal(head.loss(logits, labels), head.loss(logits.float(), labels))
    log_probs = head.node_log_probs(logits)
    assert log_probs.dtype == torch.float32
    assert not log_probs.isnan().any()
    if "projection" in head.supervisions:
        known = random_knowledge(tree, 1)
        loss = supervise(head, "projection", known=known, laziness=0.1).loss
        assert torch.equal(loss(logits, labels), loss(logits.float(), labels))


@SAID
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_integer_type(name, kind):
    tree = tree_from([0, 0, 1, 1])
    head = build_head(name, tree)
    labels, logits = torch.arange(len(tree)), logits_for(head, len(tree), 0)
    for supervision in head.supervisions:
        known = random_knowledge(tree, 1)
        writes = [labeller_model(tree, known[None], 0.2).writes(0)]
        supervised = supervise(head, supervision, known=known, writes=writes)
        expected = supervised.loss(logits, labels)
        assert torch.equal(supervised.loss(logits, labels.to(kind)), expected)
        assert torch.equal(supervised.enters(labels.to(kind)), supervised.enters(labels))
    assert torch.equal(head.loss(logits, labels.to(kind)), head.loss(logits, labels))
    often, many = labels.repeat(8), logits_for(head, 8 * len(tree), 1)  # too few leave T at 1
    assert fit_temperature(many, often.to(kind), head) == fit_temperature(many, often, head)


@pytest.mark.parametrize("name", NAMES)
def test_labels_outside_the_tree_are_refused(name):
    tree = tree_from([0, 0, 1, 1])
    head = build_head(name, tree)
    head.check_labels(torch.arange(len(tree)))
    head.check_labels(np.zeros(0, dtype=np.int64))
    for wrong in (-1, len(tree), -100):
        labels = torch.tensor([0, 1, wrong], dtype=torch.int32)
        message = f"from 0 to 4, but sample 2 has {wrong}; leave out"
        with pytest.raises(HeadError, match=message):
            head.check_labels(labels)
        with pytest.raises(HeadError, match=message):
            head.check_labels(labels.numpy())
        with pytest.raises(HeadError, match=message):
            fit_temperature(logits_for(head, 3, 0), labels, head)
        with pytest.raises(HeadError, match=message):
            branch_dataset(tree, labels, 0)
    with pytest.raises(HeadError, match=r"whole numbers, .* not float32"):
        head.check_labels(torch.zeros(2))


def margin_by_hand(hand, kind, y, u):
    above = [set(hand.above[node]) for node in (y, u)]
    lca = max(above[0] & above[1])
    depth = {node: len(hand.above[node]) - 1 for node in (y, u, lca)}

    def information(node):
        return -math.log(len(set(hand.under[node]) & set(hand.leaves)) / len(hand.leaves))

    return {
        "incorrect": float(u not in above[0]),
        "edge-distance": len(above[0] ^ above[1]),
        "depth-deficit": depth[y] - depth[lca],
        "information-distance": information(y) + information(u) - 2 * information(lca),
    }[kind]


@pytest.mark.parametrize("kind", MARGINS)
@QUICK
@given(tree=trees(12, 2), seed=SEEDS, size=st.sampled_from([0.0, 0.5, 5.0]))
def test_margins_are_the_formulas(kind, tree, seed, size):
    head = build_head("softmax-margin", tree, margin_type=kind, margin_size=size)
    hand, labels = ByHand(tree), torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed)
    losses = head.sample_losses(logits, labels)
    for y, theta in enumerate(logits.tolist()):
        raised = [theta[u] + size * margin_by_hand(hand, kind, y, u) for u in hand.nodes]
        expected = -theta[y] + math.log(sum(map(math.exp, raised)))
        assert losses[y].item() == pytest.approx(expected, abs=1e-9)


def test_margin_settings():
    tree = tree_from([0, 0, 1])
    assert build_head("softmax-margin", tree).margin_size == 5.0
    for settings_, message in (
        ({"margin_type": "wide"}, "no margin 'wide'; choose one of incorrect, edge-distance"),
        ({"margin_size": -1.0}, "finite number from 0, not -1.0"),
        ({"margin_size": float("nan")}, "finite number from 0, not nan"),
        ({"size": 1.0}, "head softmax-margin has no setting size"),
    ):
        with pytest.raises(HeadError, match=message):
            build_head("softmax-margin", tree, **settings_)
    with pytest.raises(HeadError, match="head flat-softmax has no setting margin_size"):
        build_head("flat-softmax", tree, margin_size=1.0)
