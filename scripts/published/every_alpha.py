"""The main result as one table: HF at every alpha, of the paper, of our runs and of the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedgrain.tables.collect import Results, paper_figures, read_results
from published.cells import with_interval
from published.markdown_table import markdown

ALPHAS = (0.0, 0.3, 0.6, 0.9)
DATASET = "cifar100"
PLAIN, RECIPE = "cifar100", "cifar100-best"  # the studies: the paper's setting, and with a recipe
WITHOUT_AUGMENTATION = "ps-softmax/projection+average_rounds=10+responsibilities=round"
_LONG = "schedule=cosine+crop_and_flip=true+weight_decay=5e-4"
_MOMENTUM = "server_optimizer=sgd+server_momentum=0.5"
PS_RECIPE = f"ps-softmax/projection+{_LONG}+{_MOMENTUM}"
FLAT_RECIPE = f"flat-softmax/projection+lr=0.1+{_LONG}+{_MOMENTUM}"
CEILING = f"ceiling:flat-softmax/projection+lr=0.1+{_LONG}+rounds=50"


@dataclass(frozen=True)
class Line:
    """A row: what readers call it, and the study and method it comes from."""

    name: str
    study: str
    method: str


LINES = (
    Line("flat-softmax, the paper's rule", PLAIN, "flat-softmax/paper"),
    Line("cond-softmax, the paper's rule", PLAIN, "cond-softmax/paper"),
    Line("FedBDFT, the paper's method", PLAIN, "fedbdft/paper"),
    Line("**ps-softmax, projection**, shared out once a round, averaged", PLAIN,
         WITHOUT_AUGMENTATION),
    Line("ps-softmax, projection, with the recipe", RECIPE, PS_RECIPE),
    Line("**flat-softmax, projection, with the recipe**", RECIPE, FLAT_RECIPE),
    Line("bound: all images pooled, every leaf known, with the recipe", RECIPE, CEILING),
)  # fmt: skip


def every_alpha(results: Path) -> str:
    """Return a line per method and a column per alpha, seeds in brackets."""
    studies = {name: read_results(results / name) for name in (PLAIN, RECIPE)}
    rows = [["FedBDFT, as the paper printed it", *_of_the_paper("fedbdft/paper")]]
    rows += [[line.name, *_ours(studies, line)] for line in LINES]
    return markdown(["method", *(f"alpha {alpha:g}" for alpha in ALPHAS)], rows)


def _of_the_paper(method: str) -> list[str]:
    figures = [paper_figures()[DATASET, method, alpha]["hf"] for alpha in ALPHAS]
    return [f"{mean:.3f} ± {interval:.3f} (10)" for mean, interval in figures]


def _ours(studies: Mapping[str, Results], line: Line) -> list[str]:
    cells = []
    for alpha in ALPHAS:
        found = studies[line.study].estimate(DATASET, line.method, alpha, "hf")
        seeds = len(studies[line.study].by_seed(DATASET, line.method, alpha, "hf"))
        cells.append("not run" if found is None else f"{with_interval(found)} ({seeds})")
    return cells
