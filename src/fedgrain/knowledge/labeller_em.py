"""Learns how labellers write from their labels and a model's probabilities (method, section 11).

Variational EM: which child an open image belongs to, and which nodes a labeller knows, are hidden;
how lazy it is and what share of the nodes it knows are estimated. Every step is a pure function.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedgrain.knowledge.labeller import Evidence, Floats, Ints, LabellerModel, gathered
from fedgrain.randomness import numpy_generator
from fedgrain.taxonomy.tree import BoolArray, Taxonomy

_SLIP = 0.01  # how often a labeller names what it does not know: a slip, a guess
_FIRST_LAZINESS = 0.1
_FIRST_KNOWS = (0.05, 0.7, 0.99)  # of a node that was never written, once, and more often
_EARLY, _LABELS = 1.0, 10.0  # a site starts with one early stop in ten labels
_MOST = 0.95  # so that no label becomes impossible
_POOLED_LABELS = 20.0  # labels at the site's laziness that an annotator starts with
_ENOUGH = 5.0  # labels that decide whether an annotator knows a node
_STEPS = 100  # at most
_CLOSE = 1e-4  # it ends when no probability moves further
_BETTER = 2.0  # of the log-likelihood, that a form with more numbers must gain

# laziness has a value for leaves and one for inner nodes; or one for each depth, or for each branch
# below the root, drawn towards these two
FORMS = ("kind", "depth", "branch")


def fitted(
    taxonomy: Taxonomy, labels: Ints, labellers: Ints | None, count: int, probabilities: Floats
) -> LabellerModel:
    """Return how the labellers of a site write, with the form of laziness that suits them.

    The form is chosen on held-out labels: learned from one half of them, drawn once and for all, it
    predicts the other half best. ``probabilities`` are as in :func:`gathered`.
    """
    first = np.zeros(len(labels), dtype=np.bool_)
    drawn = numpy_generator(0, "held-out labels").permutation(len(labels))
    first[drawn[: len(labels) // 2]] = True
    coarse = taxonomy.child_counts[labels] > 0

    def part(chosen: BoolArray) -> Evidence:
        who = None if labellers is None else labellers[chosen]
        return gathered(taxonomy, labels[chosen], who, count, probabilities[chosen[coarse]])

    form = chosen_form(taxonomy, part(first), part(~first))
    return learned(taxonomy, part(np.ones_like(first)), form)


def learned(taxonomy: Taxonomy, evidence: Evidence, form: str = FORMS[0]) -> LabellerModel:
    """Return the model that explains the labels of a site best, with laziness of one form."""
    model = first_model(taxonomy, evidence)
    for _ in range(_STEPS):
        before, model = model, next_model(model, evidence, form)
        moved = np.abs(model.knows - before.knows).max(), np.abs(model.lazy - before.lazy).max()
        if max(moved) < _CLOSE:
            break
    return model


def first_model(taxonomy: Taxonomy, evidence: Evidence) -> LabellerModel:
    """Return what is believed before the model is asked: what is written is mostly known."""
    never, once, often = _FIRST_KNOWS
    passes = evidence.passes
    knows = np.where(passes >= 2, often, np.where(passes >= 1, once, never))
    return LabellerModel(taxonomy, knows, np.full(knows.shape, _FIRST_LAZINESS))


def chosen_form(taxonomy: Taxonomy, some: Evidence, others: Evidence) -> str:
    """Return the form of laziness, learned from some labels, that predicts the others best.

    A form with more numbers is taken only if it is clearly better.
    """
    by_form = [log_likelihood(learned(taxonomy, some, form), others) for form in FORMS]
    needed = np.arange(len(FORMS)) > 0
    best = int(np.argmax(np.array(by_form) - _BETTER * needed))
    return FORMS[best]


def log_likelihood(model: LabellerModel, evidence: Evidence) -> float:
    """Return the log-probability of labels given the model of who wrote them.

    Without that of the images' classes, which is the same for every labeller.
    """
    stops = np.clip(model.stops, _SLIP, 1.0 - _SLIP)
    passed = (evidence.passes * np.log1p(-stops))[:, 1:].sum()
    weights = (evidence.probabilities * stops[_places(evidence)]).sum(axis=1)
    return float(passed + np.log(np.maximum(weights, 1e-300)).sum())


def next_model(model: LabellerModel, evidence: Evidence, form: str = FORMS[0]) -> LabellerModel:
    """Return the model after one step of EM.

    With the first form of laziness the :func:`bound` of a single labeller never falls.
    """
    stopped = stop_counts(model, evidence, stop_shares(model, evidence))
    lazier = replace(model, lazy=_laziness(model, evidence, stopped, form))
    return replace(lazier, knows=_knowledge(lazier, evidence, stopped))


def stop_shares(model: LabellerModel, evidence: Evidence) -> Floats:
    """E-step: return how likely each child is the one an image shows [images, most children]."""
    weights = evidence.probabilities * np.exp(_log_stop(model))[_places(evidence)]
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))


def stop_counts(model: LabellerModel, evidence: Evidence, shares: Floats) -> Floats:
    """Return how often each labeller stopped before each node, by the shares [labellers, nodes]."""
    shape = model.knows.shape
    place = np.ravel_multi_index(_places(evidence), shape)
    counts = np.bincount(place.ravel(), weights=shares.ravel(), minlength=model.knows.size)
    return np.asarray(counts.reshape(shape))


def bound(model: LabellerModel, evidence: Evidence) -> float:
    """Return the lower bound of the labels' log-likelihood that EM raises, priors included.

    For one labeller; but for a constant.
    """
    knows, lazy, asked = model.knows, model.lazy, evidence.asked
    weights = evidence.probabilities * np.exp(_log_stop(model))[_places(evidence)]
    total = weights.sum(axis=1)
    passed = knows * np.log1p(-lazy) + (1.0 - knows) * np.log(_SLIP)
    value = np.log(total[total > 0]).sum() + (evidence.passes * passed)[asked].sum()
    for kind in _kinds(model.taxonomy):
        chosen = asked & kind
        if not chosen.any():
            continue
        share, rate = _known_share(knows[chosen]), lazy[chosen][0]
        value += _EARLY * np.log(rate) + (_LABELS - _EARLY) * np.log1p(-rate)
        value += np.log(share) + np.log1p(-share)
        own = knows[chosen]
        value += (own * np.log(share) + (1.0 - own) * np.log1p(-share)).sum()
        value -= (_x_log_x(own) + _x_log_x(1.0 - own)).sum()
    return float(value)


# -- the steps -------------------------------------------------------------------------------------


def _laziness(model: LabellerModel, evidence: Evidence, stopped: Floats, form: str) -> Floats:
    """M-step: return how often labellers stop before what they know, for leaves and inner nodes.

    Each of several labellers is drawn towards all of them together, and each depth or branch
    towards all of the labeller's.
    """
    lazy = np.empty_like(model.lazy)
    early, full = model.knows * stopped, model.knows * evidence.passes
    for kind in _kinds(model.taxonomy):
        counted = evidence.asked & kind
        stops = np.where(counted, early, 0.0).sum(axis=1)
        labels = stops + np.where(counted, full, 0.0).sum(axis=1)
        rate = (stops.sum() + _EARLY) / (labels.sum() + _LABELS)
        rates = np.full(len(stops), rate)
        if len(stops) > 1:
            rates = (stops + _POOLED_LABELS * rate) / (labels + _POOLED_LABELS)
        lazy[:, kind] = np.minimum(rates, _MOST)[:, None]
        if form == FORMS[0]:
            continue
        for part in _parts(model.taxonomy, form):
            within = counted & part
            own = np.where(within, early, 0.0).sum(axis=1)
            seen = own + np.where(within, full, 0.0).sum(axis=1)
            shrunk = (own + _POOLED_LABELS * rates) / (seen + _POOLED_LABELS)
            lazy[:, kind & part] = np.minimum(shrunk, _MOST)[:, None]
    return lazy


def _knowledge(model: LabellerModel, evidence: Evidence, stopped: Floats) -> Floats:
    """Return the probability that each labeller knows each node, given where it stopped."""
    prior = _prior(model, evidence, stopped)
    passes, lazy = evidence.passes, model.lazy
    knowing = np.log(prior) + stopped * np.log(lazy) + passes * np.log1p(-lazy)
    not_knowing = np.log1p(-prior) + passes * np.log(_SLIP)
    knows = 1.0 / (1.0 + np.exp(np.clip(not_knowing - knowing, -500.0, 500.0)))
    return np.where(evidence.asked, knows, model.knows)


def _prior(model: LabellerModel, evidence: Evidence, stopped: Floats) -> Floats:
    """Return how likely a node is known before its own labels are seen [labellers or 1, nodes].

    This is the share of known nodes of its kind. Where a site has several labellers, what the
    others know counts as well, as far as their labels show it.
    """
    prior = np.full((1, len(model.taxonomy)), 0.5)
    for kind in _kinds(model.taxonomy):
        prior[:, kind] = _known_share(model.knows[evidence.asked & kind])
    if len(model.knows) > 1:
        shown = np.minimum(stopped + evidence.passes, _ENOUGH) / _ENOUGH * evidence.asked
        prior = ((model.knows * shown).sum(axis=0) + prior) / (shown.sum(axis=0) + 1.0)
    return np.asarray(np.clip(prior, 1e-6, 1.0 - 1e-6))


def _known_share(knows: Floats) -> float:
    return float((knows.sum() + 1.0) / (knows.size + 2.0))


def _log_stop(model: LabellerModel) -> Floats:
    """Return the expected log-probability to stop before each node; -inf for the root."""
    logs = model.knows * np.log(model.lazy)  # before an unknown node it stops for certain
    logs[:, 0] = -np.inf
    return np.asarray(logs)


def _kinds(taxonomy: Taxonomy) -> tuple[BoolArray, BoolArray]:
    """Return the masks of leaves and of inner nodes."""
    leaves = taxonomy.child_counts == 0
    return leaves, ~leaves


def _parts(taxonomy: Taxonomy, form: str) -> list[BoolArray]:
    """Return masks of the nodes of each depth, or of each branch below the root."""
    table = taxonomy.ancestor_table
    of_node = taxonomy.depth if form == "depth" else table[:, min(1, table.shape[1] - 1)]
    return [of_node == value for value in np.unique(of_node[1:]).tolist()]


def _places(evidence: Evidence) -> tuple[Ints, Ints]:
    """Return the labeller and the node of each candidate child [images, most children]."""
    return np.broadcast_to(evidence.labellers[:, None], evidence.children.shape), evidence.children


def _x_log_x(values: Floats) -> Floats:
    return np.asarray(values * np.log(np.maximum(values, 1e-300)))
