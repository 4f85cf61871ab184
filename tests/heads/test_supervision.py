import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedgrain.errors import HeadError
from fedgrain.heads import (
    HEADS,
    CondSoftmax,
    Head,
    LossTerms,
    branch_dataset,
    branch_losses,
    build_head,
    supervise,
    unknown_children,
)
from fedgrain.knowledge.correspondence import Correspondence
from fedgrain.knowledge.labeller import LabellerModel, labeller_model
from fedgrain.knowledge.projection import project_known
from fedgrain.taxonomy import Taxonomy
from heads_by_hand import QUICK, SEEDS, ByHand, logits_for, random_knowledge
from strategies import trees

PROJECTING = ["flat-softmax", "ps-softmax", "cond-softmax"]


def quiet_losses(supervised, logits, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels the client could not have written
        return supervised.sample_losses(logits, labels)


@pytest.mark.parametrize("name", list(HEADS))
@pytest.mark.parametrize("count", [1, 5, 32, 33])
def test_the_loss_of_samples_that_all_enter_is_the_same_to_the_bit(name, count):
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2"), ("r", "c")])
    supervised = supervise(build_head(name, tree), "paper")
    logits = logits_for(supervised.head, count, 5)
    labels = torch.tensor(np.resize(tree.leaves, count))
    assert torch.equal(supervised.entered_loss(logits, labels), supervised.loss(logits, labels))


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.2, 1.0]))
def test_projection_is_the_sum_over_the_leaves_it_stands_for(name, tree, seed, laziness):
    known = random_knowledge(tree, seed)
    head, hand = build_head(name, tree), ByHand(tree)
    supervised = supervise(head, "projection", known=torch.tensor(known), laziness=laziness)
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed).requires_grad_()
    losses = quiet_losses(supervised, logits, labels)
    for row, theta in enumerate(logits.tolist()):
        expected = hand.projection(name, theta, row, known, laziness)
        assert losses[row].item() == pytest.approx(expected, abs=1e-6)
    assert supervised.enters(labels).all()
    if len(tree) <= 7:
        assert torch.autograd.gradcheck(lambda x: quiet_losses(supervised, x, labels), [logits])


@pytest.mark.parametrize("name", ["flat-softmax", "ps-softmax"])
@pytest.mark.parametrize("supervision", ["marginal", "projection", "learned"])
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_responsibilities_are_one_step_of_em(name, supervision, tree, seed):
    """Where they were made, they pull exactly as the likelihood does; elsewhere they bound it."""
    known = torch.tensor(random_knowledge(tree, seed))
    head = build_head(name, tree)
    model = labeller_model(tree, known.numpy()[None], 0.3)
    supervised = supervise(head, supervision, known=known, writes=[model.writes(0)])
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed).requires_grad_()
    shares = supervised.responsibilities(logits, labels).detach()
    torch.testing.assert_close(shares.sum(1), torch.ones_like(shares[:, 0]))
    for label, row in enumerate(shares):
        outside = [leaf for leaf in range(len(row)) if label not in tree.path(tree.leaves[leaf])]
        assert not row[outside].any()
    sets = supervised.stands_for(labels)
    alone = sets.sum(1) == 1  # the trainer does not ask the model about these
    assert torch.equal(shares[alone], sets[alone].to(shares.dtype))
    (expected,) = torch.autograd.grad(quiet_losses(supervised, logits, labels).mean(), logits)
    (found,) = torch.autograd.grad(supervised.shared_loss(logits, shares), logits)
    torch.testing.assert_close(found, expected)
    entropy = -(shares * shares.clamp_min(1e-300).log()).sum(1)
    other = logits_for(head, len(tree), seed + 1)
    reading = supervised.readings[0] if supervised.readings else None
    written = torch.where(shares > 0, shares * head.leaf_weights(labels, reading), 0.0).sum(1)
    bound = head.shared_losses(other, shares) - entropy - written
    assert (quiet_losses(supervised, other, labels) <= bound + 1e-6).all()


def test_responsibilities_of_a_head_without_them_are_refused():
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b")])
    for name, supervision in (("cond-softmax", "marginal"), ("flat-softmax", "paper")):
        supervised = supervise(build_head(name, tree), supervision)
        with pytest.raises(HeadError, match="responsibilities need flat-softmax or ps-softmax"):
            supervised.responsibilities(torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))


@pytest.mark.parametrize("name", [name for name in HEADS if name != "cond-sigmoid"])
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_marginal_is_the_probability_of_the_label(name, tree, seed):
    head, hand = build_head(name, tree), ByHand(tree)
    supervised = supervise(head, "marginal")
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed)
    losses = supervised.sample_losses(logits, labels)
    for row, theta in enumerate(logits.tolist()):
        assert losses[row].exp().item() == pytest.approx(1 / hand.probs(name, theta)[row], rel=1e-6)
    torch.testing.assert_close(Head.marginal_losses(head, logits, labels), losses)
    torch.testing.assert_close(supervised.loss(logits, labels), losses.mean())


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_full_knowledge_is_leaf_cross_entropy(name, tree, seed):
    head = build_head(name, tree)
    supervised = supervise(head, "projection", known=np.ones(len(tree), dtype=bool))
    labels = torch.tensor(tree.leaves.astype(np.int64))
    logits = logits_for(head, len(labels), seed)
    torch.testing.assert_close(
        supervised.sample_losses(logits, labels), head.sample_losses(logits, labels)
    )


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_the_possible_labels_of_a_client_sum_to_one(name, tree, seed):
    head = build_head(name, tree)
    supervised = supervise(head, "projection", known=random_knowledge(tree, seed))
    possible = (~supervised.readings[0].empty).nonzero()[:, 0]
    logits = logits_for(head, 1, seed).expand(len(possible), -1)
    total = (-supervised.sample_losses(logits, possible)).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.3]))
def test_a_label_that_stands_for_all_leaves_teaches_nothing(name, tree, seed, laziness):
    known = np.zeros(len(tree), dtype=bool)
    known[0] = True
    head = build_head(name, tree)
    logits = logits_for(head, 3, seed, 10.0, torch.float32).requires_grad_()
    supervised = supervise(head, "projection", known=known, laziness=laziness)
    loss = supervised.loss(logits, torch.zeros(3, dtype=torch.int64))
    loss.backward()
    assert loss.item() == 0.0
    assert (logits.grad == 0).all()


@QUICK
@given(tree=trees(14, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.2]))
def test_cond_softmax_is_the_sum_of_its_branches(tree, seed, laziness):
    known = random_knowledge(tree, seed)
    head = CondSoftmax(tree)
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed)
    for supervision in ("paper", "projection"):
        total = torch.zeros(len(tree), dtype=torch.float64)
        for branch in tree.internal.tolist():
            indices, targets = branch_dataset(tree, labels, branch, supervision, known)
            of_branch = logits[indices][:, tree.children(branch) - 1]
            unknown = unknown_children(tree, branch, known)
            total[indices] += branch_losses(of_branch, targets, unknown, laziness)
        lazy = laziness if supervision == "projection" else 0.0
        supervised = supervise(head, supervision, known=known, laziness=lazy)
        torch.testing.assert_close(quiet_losses(supervised, logits, labels), total)


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.2]))
def test_each_of_several_labellers_is_read_by_their_own_knowledge(name, tree, seed, laziness):
    masks = np.stack([random_knowledge(tree, seed + labeller) for labeller in range(3)])
    head = build_head(name, tree)
    labels = torch.arange(len(tree)).repeat(2)
    labellers = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, len(labels)))
    logits = logits_for(head, len(labels), seed).requires_grad_()
    together = supervise(head, "projection", known=masks, laziness=laziness)
    both = torch.stack([labels, labellers], 1)
    losses = quiet_losses(together, logits, both)
    for row, (label, labeller) in enumerate(both.tolist()):
        alone = supervise(head, "projection", known=masks[labeller], laziness=laziness)
        one = logits[row : row + 1]
        expected = quiet_losses(alone, one, torch.tensor([label]))
        torch.testing.assert_close(losses[row], expected[0])
        if name != "cond-softmax":
            shares = together.responsibilities(logits, both)[row]
            expected = alone.responsibilities(one, torch.tensor([label]))
            torch.testing.assert_close(shares, expected[0])
    assert torch.equal(together.loss(logits, both), losses.mean())
    if name == "cond-softmax":
        total = torch.zeros(len(labels), dtype=torch.float64)
        for branch in tree.internal.tolist():
            rows, targets = branch_dataset(tree, labels, branch, "projection", masks, labellers)
            unknown = unknown_children(tree, branch, masks)[labellers[rows]]
            of_branch = logits[rows][:, tree.children(branch) - 1]
            total[rows] += branch_losses(of_branch, targets, unknown, laziness)
        torch.testing.assert_close(losses, total)
        total.sum().backward()
        assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(30, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.2]))
def test_large_logits(name, tree, seed, laziness):
    head, known = build_head(name, tree), random_knowledge(tree, seed)
    writes = [labeller_model(tree, known[None], laziness).writes(0)]
    labels = torch.arange(len(tree))
    for supervised in (
        supervise(head, "projection", known=known, laziness=laziness),
        supervise(head, "learned", writes=writes),
    ):
        logits = logits_for(head, len(tree), seed, 1e4, torch.float32).requires_grad_()
        losses = quiet_losses(supervised, logits, labels)
        losses.sum().backward()
        assert losses.isfinite().all()
        assert (losses >= 0).all()
        assert logits.grad.isfinite().all()


# -- learned ---------------------------------------------------------------------------------------


def constant(tree, value=1.0):
    """T that is the same for all of a leaf's ancestors."""
    return np.full((len(tree.leaves), len(tree.levels)), value)


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_learned_is_the_sum_over_leaves_of_p_times_t(name, tree, seed):
    head, hand = build_head(name, tree), ByHand(tree)
    writes = np.random.default_rng(seed).random((len(tree.leaves), len(tree.levels)))
    supervised = supervise(head, "learned", writes=[writes])
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed).requires_grad_()
    losses = supervised.sample_losses(logits, labels)
    for label, theta in enumerate(logits.tolist()):
        of_leaf = hand.leaf_probs(name, theta)
        likelihood = sum(
            of_leaf[leaf] * writes[column, tree.depth[label]]
            for column, leaf in enumerate(hand.leaves)
            if label in hand.above[leaf]
        )
        assert losses[label].item() == pytest.approx(-np.log(likelihood), abs=1e-6)
    assert supervised.enters(labels).all()
    if len(tree) <= 7:
        assert torch.autograd.gradcheck(lambda x: supervised.sample_losses(x, labels), [logits])


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.3, 1.0]))
def test_the_other_supervisions_are_special_cases_of_learned(name, tree, seed, laziness):
    """Constant T is marginal; T one at the projection is projection, T laziness above it lazy."""
    known = random_knowledge(tree, seed)
    head, labels = build_head(name, tree), torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed)

    def learned(writes):
        return supervise(head, "learned", writes=[writes]).sample_losses(logits, labels)

    marginal = supervise(head, "marginal").sample_losses(logits, labels)
    torch.testing.assert_close(learned(constant(tree)), marginal, atol=1e-6, rtol=0)
    torch.testing.assert_close(learned(constant(tree, 0.2)) + np.log(0.2), marginal)
    supervised = supervise(head, "projection", known=known, laziness=laziness)
    projected = quiet_losses(supervised, logits, labels)
    proj = project_known(tree, known[None]).labels[0]
    depths = np.arange(len(tree.levels))
    writes = np.where(depths < tree.depth[proj][:, None], laziness, 0.0)
    writes[np.arange(len(proj)), tree.depth[proj]] = 1.0
    possible = torch.tensor(np.isin(np.arange(len(tree)), proj))
    found = learned(writes)
    torch.testing.assert_close(found[possible], projected[possible], atol=1e-6, rtol=0)
    if laziness == 0.0:  # an impossible label is marginal in both
        torch.testing.assert_close(found, projected, atol=1e-6, rtol=0)
        model = labeller_model(tree, known[None])
        torch.testing.assert_close(learned(model.writes(0)), projected, atol=1e-6, rtol=0)


@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_fedmt_with_the_known_correspondence_is_projection(tree, seed):
    """M one where a leaf projects to the label; and any M is the paper's sum over classes."""
    known, head = random_knowledge(tree, seed), build_head("flat-softmax", tree)
    labels, logits = torch.arange(len(tree)), logits_for(head, len(tree), seed)
    proj = project_known(tree, known[None]).labels[0]
    table = (np.arange(len(tree))[:, None] == proj).astype(float)  # [nodes, leaves]

    def losses(table):
        given = Correspondence(np.arange(len(tree)), table)
        return supervise(head, "learned", writes=[given]).sample_losses(logits, labels)

    projection = quiet_losses(supervise(head, "projection", known=known), logits, labels)
    torch.testing.assert_close(losses(table), projection, atol=1e-6, rtol=0)
    free = np.random.default_rng(seed).random(table.shape)
    by_hand = -((logits.softmax(1) * torch.tensor(free)).sum(1)).log()
    torch.testing.assert_close(losses(free), by_hand.to(logits.dtype), atol=1e-6, rtol=0)


@QUICK
@given(tree=trees(14, 2), seed=SEEDS, laziness=st.sampled_from([0.0, 0.3, 0.9]))
def test_learned_cond_softmax_is_the_sum_of_its_branches(tree, seed, laziness):
    """Branch by branch, with what the labeller does above the label as a constant."""
    known = random_knowledge(tree, seed)
    lazy = np.where(tree.child_counts == 0, laziness, 0.2)[None]
    model = LabellerModel(tree, known[None].astype(float), lazy)
    head, labels = CondSoftmax(tree), torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed).requires_grad_()
    whole = supervise(head, "learned", writes=[model.writes(0)]).sample_losses(logits, labels)
    total = torch.zeros(len(tree), dtype=torch.float64)
    for branch in tree.internal.tolist():
        indices, targets = branch_dataset(tree, labels, branch, "learned", known)
        of_branch = logits[indices][:, tree.children(branch) - 1]
        stops = torch.tensor(model.stops[0, tree.children(branch)])
        total[indices] += branch_losses(of_branch, targets, stops=stops)
    (expected,) = torch.autograd.grad(whole.sum(), logits, retain_graph=True)
    (found,) = torch.autograd.grad(total.sum(), logits)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", PROJECTING)
def test_each_labeller_is_read_by_its_own_t(name):
    head = build_head(name, TREE)
    writes = [np.random.default_rng(w).random((len(TREE.leaves), 3)) for w in range(2)]
    labels = torch.tensor([[1, 1], [1, 0], [0, 1], [4, 0]])
    logits = logits_for(head, 4, 0)
    losses = supervise(head, "learned", writes=writes).sample_losses(logits, labels)
    for row, (label, labeller) in enumerate(labels.tolist()):
        alone = supervise(head, "learned", writes=[writes[labeller]])
        one = alone.sample_losses(logits[row : row + 1], torch.tensor([label]))
        torch.testing.assert_close(losses[row], one[0])


@pytest.mark.parametrize("writes", [None, [np.ones((2, 2))], [-np.ones((3, 3))]])
def test_learned_without_a_fitting_t_is_refused(writes):
    with pytest.raises(HeadError, match="writes"):
        supervise(build_head("flat-softmax", TREE), "learned", writes=writes)


TREE = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2")])


def test_a_label_worked_out_by_hand():
    """The client knows a1 but not a2: its label a can only mean a2, and says "not a1"."""
    known = np.array([node in ("r", "a", "a1", "b") for node in TREE.ids])
    head = build_head("flat-softmax", TREE)
    probs = {"a1": 0.5, "a2": 0.2, "b": 0.3}
    logits = torch.tensor([[probs[TREE.ids[leaf]] for leaf in TREE.leaves]]).log()
    label = torch.tensor([TREE.index("a")])

    def likelihood(supervision, **options):
        return supervise(head, supervision, **options).loss(logits, label).neg().exp().item()

    assert likelihood("projection", known=known) == pytest.approx(0.2)
    assert likelihood("marginal") == pytest.approx(0.7)
    assert likelihood("projection", known=known, laziness=0.1) == pytest.approx(0.9 * 0.2 + 0.07)
    assert supervise(head).loss(logits, label) == 0.0
    assert not supervise(head).enters(label).any()


def test_an_impossible_label_warns_once():
    head = build_head("cond-softmax", TREE)
    supervised = supervise(head, "projection", known=np.ones(len(TREE), dtype=bool))
    logits, label = logits_for(head, 1, 0), torch.tensor([TREE.index("a")])
    with pytest.warns(UserWarning, match="label 'a' stands for no leaf") as caught:
        first = supervised.loss(logits, label)
        second = supervised.loss(logits, label)
    assert len(caught) == 1
    torch.testing.assert_close(first, supervise(head, "marginal").loss(logits, label))
    assert torch.equal(first, second)


KNOWN = np.ones(len(TREE), dtype=bool)
OPEN = np.array([node != "a" for node in TREE.ids])
HEADLESS = np.array([node != "r" for node in TREE.ids])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("flat-softmax", {"supervision": "full"}, "no supervision 'full'; choose one of paper,"),
        ("cond-sigmoid", {"supervision": "marginal"}, "cond-sigmoid: it would have no negatives"),
        ("cond-sigmoid", {"supervision": "projection", "known": KNOWN}, "has no meaning for cond-"),
        ("softmax-margin", {"supervision": "projection", "known": KNOWN}, "probability of their"),
        ("softmax-descendant", {"supervision": "projection", "known": KNOWN}, "choose paper or ma"),
        ("flat-softmax", {"supervision": "projection"}, "give the mask `known`"),
        ("flat-softmax", {"laziness": 0.1}, "laziness 0.1 has no meaning for supervision 'paper'"),
        (
            "flat-softmax",
            {"supervision": "projection", "known": KNOWN, "laziness": 1.5},
            "from 0 to 1, not 1.5",
        ),
        ("flat-softmax", {"supervision": "projection", "known": KNOWN[1:]}, "over the 5 nodes"),
        ("flat-softmax", {"supervision": "projection", "known": KNOWN * 1.0}, "array of float64"),
        (
            "flat-softmax",
            {"supervision": "projection", "known": OPEN},
            "knows 'a1' but not its par",
        ),
        (
            "flat-softmax",
            {"supervision": "projection", "known": HEADLESS},
            "does not know the root 'r'",
        ),
    ],
)
def test_combinations_without_meaning_are_refused(name, options, message):
    with pytest.raises(HeadError, match=message) as refusal:
        supervise(build_head(name, TREE), **options)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", PROJECTING)
@QUICK
@given(tree=trees(14, 2), seed=SEEDS)
def test_label_smoothing_spreads_a_share_of_the_label_over_the_leaves(name, tree, seed):
    """Szegedy et al. 2016: for leaves with one softmax it is torch's own smoothing."""
    known = torch.tensor(random_knowledge(tree, seed))
    head, hand, terms = build_head(name, tree), ByHand(tree), LossTerms(label_smoothing=0.2)
    labels = torch.arange(len(tree))
    logits = logits_for(head, len(tree), seed)
    for supervision in ("paper", "projection"):
        plain = supervise(head, supervision, known=known)
        losses = quiet_losses(
            supervise(head, supervision, known=known, terms=terms), logits, labels
        )
        for row, theta in enumerate(logits.tolist()):
            leaves = hand.leaf_probs(name, theta)
            spread = -np.mean([np.log(share) for share in leaves.values()])
            expected = 0.8 * quiet_losses(plain, logits, labels)[row].item() + 0.2 * spread
            expected *= plain.enters(labels)[row].item()  # what is dropped costs nothing
            assert losses[row].item() == pytest.approx(expected, abs=1e-6)
    if name != "cond-softmax":
        shares = torch.rand(len(tree), len(tree.leaves), dtype=logits.dtype)
        smooth = torch.nn.functional.cross_entropy(
            head.leaf_scores(logits), 2 * shares / shares.sum(1, keepdim=True), label_smoothing=0.2
        )
        found = supervise(head, "marginal", terms=terms)
        weighed = found.shared_loss(logits, 2 * shares / shares.sum(1, keepdim=True))
        torch.testing.assert_close(weighed, smooth + 0.2 * head_spread(head, logits))


def head_spread(head, logits):
    """Torch spreads a share of 1 whatever the targets sum to; labels that count 2 spread 2."""
    return -head.leaf_scores(logits).log_softmax(1).mean()


@pytest.mark.parametrize("name", ["flat-softmax", "ps-softmax"])
@QUICK
@given(tree=trees(14, 2), seed=SEEDS, decay=st.sampled_from([1.0, 0.5]))
def test_terms_for_ancestors_are_summed_over_the_nodes_above_the_set(name, tree, seed, decay):
    known = torch.tensor(random_knowledge(tree, seed))
    head, hand = build_head(name, tree), ByHand(tree)
    terms = LossTerms(ancestors=0.7, ancestor_decay=decay)
    logits, labels = logits_for(head, len(tree), seed), torch.arange(len(tree))
    projection = project_known(tree, known.numpy()[None])
    leaves_of = {v: {u for u in hand.under[v] if u in hand.leaves} for v in hand.nodes}
    for supervision in ("paper", "marginal", "projection"):
        plain = supervise(head, supervision, known=known)
        read = supervise(head, supervision, known=known, terms=terms)
        added = quiet_losses(read, logits, labels) - quiet_losses(plain, logits, labels)
        for y, theta in enumerate(logits.tolist()):
            stands_for = leaves_of[y]
            if supervision == "projection" and y in projection.labels[0]:
                written = zip(hand.leaves, projection.labels[0], strict=True)
                stands_for = {leaf for leaf, label in written if label == y}
            above = [v for v in hand.nodes[1:] if leaves_of[v] > stands_for]
            probs = hand.probs(name, theta)
            expected = sum(-0.7 * decay ** (tree.depth[v] - 1) * np.log(probs[v]) for v in above)
            expected *= plain.enters(labels)[y].item()
            assert added[y].item() == pytest.approx(expected, abs=1e-6)
    shares = torch.rand(len(tree), len(tree.leaves), dtype=logits.dtype)
    read, plain = (supervise(head, "marginal", terms=t) for t in (terms, LossTerms()))
    added = read.shared_loss(logits, shares) - plain.shared_loss(logits, shares)
    expected = 0.0
    for theta, row in zip(logits.tolist(), shares.tolist(), strict=True):
        probs = hand.probs(name, theta)
        for leaf, share in zip(hand.leaves, row, strict=True):
            above = [v for v in hand.above[leaf][1:] if len(leaves_of[v]) > 1]
            weights = [0.7 * decay ** (tree.depth[v] - 1) for v in above]
            pairs = zip(weights, above, strict=True)
            expected -= share * sum(weight * np.log(probs[v]) for weight, v in pairs) / len(tree)
    assert added.item() == pytest.approx(expected, abs=1e-6)


def test_terms_for_ancestors_need_probabilities_of_leaves():
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b")])
    with pytest.raises(HeadError, match="need flat-softmax or ps-softmax, not cond-softmax"):
        supervise(build_head("cond-softmax", tree), terms=LossTerms(ancestors=1.0))


@pytest.mark.parametrize("name", PROJECTING)
def test_generalised_cross_entropy_is_its_formula(name):
    """(1 - p^q) / q of the likelihood p of each label (Zhang and Sabuncu 2018); q to 0 is -log."""
    tree = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "a1"), ("a", "a2")])
    head, labels = build_head(name, tree), torch.arange(len(tree))
    logits = logits_for(head, len(tree), 3)
    plain = supervise(head, "marginal").sample_losses(logits, labels)
    robust = supervise(head, "marginal", terms=LossTerms(gce=0.7)).sample_losses(logits, labels)
    torch.testing.assert_close(robust, (1 - (-plain).exp() ** 0.7) / 0.7)
    nearly = supervise(head, "marginal", terms=LossTerms(gce=1e-7)).sample_losses(logits, labels)
    torch.testing.assert_close(nearly, plain, atol=1e-5, rtol=0)
    if name != "cond-softmax":
        shares = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(3), len(tree)))
        found = supervise(head, "marginal", terms=LossTerms(gce=0.7)).shared_loss(logits, shares)
        by_leaf = (1 - head.leaf_log_probs(logits).exp() ** 0.7) / 0.7
        torch.testing.assert_close(found, (shares * by_leaf).sum(1).mean())
