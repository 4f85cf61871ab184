"""Proposals against brute force over the leaves of small trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrain.refinement.proposals import Chains, candidate_shares, propose
from fedgrain.taxonomy import Taxonomy
from strategies import trees

TREE = Taxonomy.from_edges(
    [("animal", "bird"), ("animal", "cat"), ("bird", "hawk"), ("bird", "owl"), ("hawk", "kite"),
     ("hawk", "buzzard")]
)  # fmt: skip


def node(name):
    return TREE.index(name)


def below(top):
    first, end = TREE.leaf_ranges
    return [TREE.ids[leaf] for leaf in TREE.leaves[first[top] : end[top]]]


def logs(**chances):
    return np.log([[chances.get(name, 1e-9) for name in below(node("bird"))]])


def test_the_likeliest_leaf_below_the_label_whatever_is_likelier_elsewhere():
    found = propose(TREE, node("bird"), np.ones(3), logs(kite=0.02, buzzard=0.01, owl=0.01))
    assert TREE.ids[found.nodes[0]] == "kite"
    assert found.probabilities[0] == pytest.approx(0.5)
    assert found.entropies[0] == pytest.approx(1.5)
    assert not found.taken[0]


def test_what_the_writer_can_name_is_no_candidate():
    can_name_kites = np.array([name != "kite" for name in below(node("bird"))], float)
    table = logs(kite=0.9, buzzard=0.03, owl=0.01)
    found = propose(TREE, node("bird"), can_name_kites, table)
    assert TREE.ids[found.nodes[0]] == "buzzard"
    assert found.probabilities[0] == pytest.approx(0.75)


def test_as_deep_as_it_is_sure():
    table = logs(kite=0.6, buzzard=0.37, owl=0.03)
    found = propose(TREE, node("bird"), np.ones(3), table, accept=0.95)
    assert TREE.ids[found.nodes[0]] == "hawk" and found.taken[0]
    assert found.probabilities[0] == pytest.approx(0.97)
    unsure = propose(TREE, node("bird"), np.ones(3), logs(kite=0.5, owl=0.5), accept=0.95)
    assert not unsure.taken[0] and TREE.is_leaf(unsure.nodes[0])


@given(trees(max_nodes=14, min_nodes=3), st.randoms(use_true_random=False))
def test_against_brute_force(tree, random):
    top = random.choice(tree.internal.tolist())
    first, end = (int(edge[top]) for edge in tree.leaf_ranges)
    count = end - first
    weights = np.array([random.choice([0.0, 0.5, 1.0]) for _ in range(count)])
    weights[random.randrange(count)] = 1.0
    table = np.log([[random.random() + 1e-6 for _ in range(count)]])
    depths = len(tree.levels)
    leaf = int(tree.leaves[random.randrange(len(tree.leaves))])
    path = tree.path(leaf).tolist()
    chain = np.array([path + [-1] * (depths - len(path))])
    falling = np.sort([random.random() for _ in range(depths)])[::-1][None]
    accept = random.choice([None, 0.6, 0.8, 0.95])
    found = propose(tree, top, weights, table, accept, Chains(chain, falling))

    chance = weights * np.exp(table[0])
    chance = dict(zip(tree.leaves[first:end].tolist(), chance / chance.sum(), strict=True))
    inside = {
        n: sum(p for one, p in chance.items() if tree.is_ancestor(n, one))
        for n in range(top, int(tree.subtree_end[top]))
    }
    proposal = int(found.nodes[0])
    assert proposal != top and tree.is_ancestor(top, proposal)
    assert found.probabilities[0] == pytest.approx(inside[proposal])
    sure = [n for n in inside if n != top and accept is not None and inside[n] >= accept + 1e-9]
    assert bool(found.taken[0]) >= bool(sure)
    if sure:
        assert tree.depth[proposal] >= max(tree.depth[n] for n in sure)
    candidates = {one for one, p in chance.items() if p > 0}
    best = 0.0
    for number, n in enumerate(path):
        kept = {one for one in candidates if tree.is_ancestor(n, one)}
        if kept and all(tree.is_ancestor(proposal, one) for one in kept):
            best = max(best, falling[0, number])
    assert found.guarantees[0] == pytest.approx(best)


def test_the_guarantee_is_that_of_the_cut_down_node():
    """The chain says bird, for certain; who could write bird only for owls makes that an owl."""
    chain = np.array([[0, node("bird"), node("hawk"), -1]])
    promised = np.array([[1.0, 0.97, 0.5, 0.0]])
    only_owls = np.array([name == "owl" for name in below(node("bird"))], float)
    table = logs(kite=0.3, buzzard=0.3, owl=0.4)
    found = propose(TREE, 0, np.r_[only_owls, 1.0], np.log([[0.3, 0.3, 0.4, 1e-3]]), None,
                    Chains(chain, promised))  # fmt: skip
    assert TREE.ids[found.nodes[0]] == "owl" and found.guarantees[0] == 0.97
    free = propose(TREE, node("bird"), np.ones(3), table, None, Chains(chain, promised))
    assert TREE.ids[free.nodes[0]] == "owl" and free.guarantees[0] == 0.0


def test_impossible_candidates_share_alike():
    shares = candidate_shares(np.array([1.0, 0.0, 1.0]), np.full((1, 3), -np.inf))
    np.testing.assert_allclose(shares, [[0.5, 0.0, 0.5]])
