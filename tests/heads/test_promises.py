"""A head that breaks a promise is refused before round 1, with the reason."""

import pytest
import torch

import fedgrain
from fedgrain import Config
from fedgrain.catalogue import HEADS
from fedgrain.errors import HeadError
from fedgrain.heads import CondSoftmax, FlatSoftmax, build_head
from fedgrain.heads.promises import check_promises
from fedgrain.taxonomy import Taxonomy

TREE = Taxonomy.from_edges(
    [("animal", "bird"), ("animal", "cat"), ("bird", "kite"), ("bird", "owl"), ("cat", "lion")]
)


@pytest.mark.parametrize("name", HEADS)
def test_our_own_heads_keep_them(name):
    check_promises(name, build_head(name, TREE))


class OverSamples(FlatSoftmax):
    """A softmax over the wrong dimension."""

    def node_log_probs(self, logits):
        return super().node_log_probs(logits).log_softmax(0)


class Doubled(FlatSoftmax):
    def node_log_probs(self, logits):
        return super().node_log_probs(logits) + 0.5


class LeavesOnly(FlatSoftmax):
    def node_log_probs(self, logits):
        return logits.log_softmax(1)


class UpsideDown(FlatSoftmax):
    def node_log_probs(self, logits):
        right = super().node_log_probs(logits)
        return torch.cat([right[:, :1], right[:, 1:].flip(1)], 1)


class Missing(CondSoftmax):
    """The leaves hold half of what they should."""

    def node_log_probs(self, logits):
        right = super().node_log_probs(logits)
        right[:, self.sums.leaves] -= 0.7
        return right


class NotANumber(FlatSoftmax):
    def node_log_probs(self, logits):
        return super().node_log_probs(logits) * torch.nan


class OneLoss(FlatSoftmax):
    def sample_losses(self, logits, labels):
        return super().sample_losses(logits, labels).mean()


class Infinite(FlatSoftmax):
    def sample_losses(self, logits, labels):
        return super().sample_losses(logits, labels) / (labels != 1)


class Constant(FlatSoftmax):
    def sample_losses(self, logits, labels):
        return torch.zeros(len(labels))


class Fails(FlatSoftmax):
    def sample_losses(self, logits, labels):
        return logits[:, len(self.taxonomy) + 5]


class Misspelt(FlatSoftmax):
    supervisions = ("papr",)


BROKEN = {
    OverSamples: "depends on the other samples",
    Doubled: r"the root has probability 1\.649, not 1",
    LeavesOnly: r"node_log_probs returns \[4, 3\] instead of \[batch, nodes\], here \[4, 6\]",
    UpsideDown: "is likelier than its parent",
    Missing: "probabilities of the leaves sum up to 0.497, not to 1, as supervision projection",
    NotANumber: r"not numbers \(nan\)",
    OneLoss: r"sample_losses returns \[\] instead of \[batch\]",
    Infinite: "the loss of a sample with the label 'bird' is not finite",
    Constant: "does not depend on the logits",
    Fails: r"fails when it is called \(IndexError: .*test_promises\.py, line \d+",
    Misspelt: "there is no supervision 'papr'",
}


@pytest.mark.parametrize("head", BROKEN, ids=lambda head: head.__name__)
def test_a_broken_promise_is_told(head):
    with pytest.raises(HeadError, match=BROKEN[head]) as caught:
        check_promises("own:Head", head(TREE))
    assert str(caught.value).startswith("head 'own:Head' ") and "\n" not in str(caught.value)


def test_a_run_is_refused_before_its_first_round(tmp_path):
    rounds = []

    class Rounds(fedgrain.Callback):
        def on_round_start(self, stage, number):
            rounds.append(number)

    settings = Config(
        dataset="own_parts:few_glyphs", net="own_parts:SmallNet", clients=2, alpha=0.5,
        head="own_parts:LoudHead", rounds=1,
    )  # fmt: skip
    with pytest.raises(HeadError, match="the root has probability"):
        fedgrain.run(settings, tmp_path / "run", [Rounds()])
    assert rounds == [] and not (tmp_path / "run").exists()


def test_the_global_random_state_is_left_alone():
    before = torch.random.get_rng_state()
    check_promises("own:Head", FlatSoftmax(TREE))
    assert torch.equal(torch.random.get_rng_state(), before)
