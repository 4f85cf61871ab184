"""A page of 1,911 classes at four sites, made from drawn answers instead of a trained model."""

import numpy as np

from fedgrain.data import LabelledImages
from fedgrain.pages.glossary import WORDS
from fedgrain.pages.page_parts import Page
from fedgrain.report.close_view import Look, show
from fedgrain.sections.answers import Answers
from fedgrain.sections.knowledge_block import knowledge_block, knowledge_view
from fedgrain.sections.model_inspection import Sites, inspection_of
from fedgrain.sections.sites_section import SiteLabels
from fedgrain.taxonomy import Taxonomy

CLASSES, GROUPS, FAMILIES = 1_911, 10, 100
SITES = ("apple", "google", "noto", "samsung")


def large_tree(classes=CLASSES):
    families = [(f"group {n % GROUPS}", f"family {n}") for n in range(FAMILIES)]
    leaves = [(f"family {n % FAMILIES}", f"smiling face number {n}") for n in range(classes)]
    groups = [("emoji", f"group {n}") for n in range(GROUPS)]
    return Taxonomy.from_edges([*groups, *families, *leaves])


def drawn_answers(tree, right=0.5, seed=0):
    """One test image of each class; half are named rightly, others get a class of the family."""
    random = np.random.default_rng(seed)
    truth = tree.leaves.astype(np.int64)
    found = truth.copy()
    for place in np.flatnonzero(random.random(len(truth)) >= right):
        found[place] = random.choice(tree.children(tree.parents[truth[place]]))
    said = np.sort(random.random((len(truth), 4)), axis=1)[:, ::-1]
    return Answers(tree, tree, "test", np.arange(len(truth)), truth, found, truth, found, said)


def large_page():
    tree = large_tree()
    tested = drawn_answers(tree)
    count = len(tested)
    data = LabelledImages(
        "drawn",
        np.zeros((count, 1, 1, 3), np.uint8),
        tested.truth.astype(np.int32),
        tree,
        np.zeros(count, np.int8),
        ("test",),
        clients=(np.arange(count) % len(SITES)).astype(np.int32),
        client_names=SITES,
    )
    sites = []
    for number, name in enumerate(SITES):
        labels = tree.ancestor_table[tested.truth, min(3, number + 1)]
        known = tree.sums_below(np.bincount(labels, minlength=len(tree))) > 0
        sites.append(SiteLabels(name, labels, np.empty(0, np.int64), known))
    look = Look()
    show(look, inspection_of(tested), "large", sites, data)
    known = Sites(SITES, np.stack([site.knows for site in sites]))
    block = knowledge_block([knowledge_view("knowledge", tree, known)])
    return Page(
        title="large",
        kind="run",
        sentence="A run.",
        sheets=(),
        blocks=(*look.blocks, block),
        close=look.close,
        settings=(),
        redo=(),
        source="",
        source_name="config.toml",
        environment={},
        headline=look.headline,
        sections=tuple(look.sections),
        glossary=WORDS,
    )
