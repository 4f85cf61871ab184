"""The words of a report, explained for readers who did not train the model."""

from __future__ import annotations

WORDS: tuple[tuple[str, str], ...] = (
    (
        "taxonomy",
        "The tree of classes: groups at the top, such as animals, ever finer groups below, and "
        "the classes themselves at the ends.",
    ),
    ("class", "An end of the tree, the finest name there is; also called a leaf."),
    ("depth", "How many steps below the top of the tree a name is. The top, the root, has 0."),
    (
        "site, client",
        "A museum, hospital or office that trains with its own images, which never leave it.",
    ),
    (
        "label",
        "The name a person gave an image: a class, or only a group (a coarse label) if the person "
        "could not tell more.",
    ),
    ("labelled in full", "Labelled with a class, not only with a group."),
    (
        "exact class",
        "The share of images labelled in full for which the model names exactly that class.",
    ),
    (
        "HF",
        "How much of the way down the tree the answer and the truth share: 1 is the right class, "
        "0 is wrong from the first step, and naming the right group counts in part. It is the "
        "balance of HR and HP.",
    ),
    ("HR", "Hierarchical recall: how much of the path to the truth the answer covers."),
    ("HP", "Hierarchical precision: how much of the path to the answer is right."),
    (
        "mistake severity",
        "How far up the tree one must go from a mistake to a group that also holds the truth; "
        "small is better.",
    ),
    (
        "test images",
        "Images kept apart until the end: the model never saw them while it was trained.",
    ),
    (
        "validation images",
        "Images the model is not trained on, but which decide when training stops.",
    ),
    (
        "round",
        "Every site that takes part trains the shared model on its images, then the results are "
        "averaged.",
    ),
    ("branch", "A point of the tree where the model chooses between the groups below it."),
    (
        "calibration",
        "Whether the probabilities can be taken at their word: of the answers given with 80%, 80% "
        "are right.",
    ),
    ("loss", "What training makes smaller: how badly the model fits the labels."),
    (
        "alpha",
        "In simulations: the share of the classes a site cannot name and labels with a group.",
    ),
    ("seed", "The number that fixes all chance in a run: the same seed gives the same result."),
)
