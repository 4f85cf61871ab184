"""Copy what a study found, without weights and images, and write its tables and figures from that.

    python scripts/publish_study.py STUDY docs/results/cifar100   # copy what is finished, write
    python scripts/publish_study.py docs/results/cifar100         # write again from the copy
    python scripts/publish_study.py --check docs/results/cifar100 # fail if a table is out of date

The copy is a study folder as well: `fedgrain table` and `fedgrain report --no-images` read it.
``reasons.toml`` in it, written by hand, says why a figure differs from the paper's, ``names.toml``
what readers call its methods;
``rescored.json``, by `scripts/score_again.py`, holds what its models score by other rules,
``trees.json``, by `scripts/score_on_trees.py`, what they score on other class hierarchies.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from fedgrain.files import write_text
from fedgrain.pictures.study_figures import draw_study
from fedgrain.tables.collect import read_results
from fedgrain.tables.study_tables import score_tables
from fedgrain.tables.table_formats import format_tables
from published.difference_figure import draw_differences
from published.difference_table import NAMES, differences, names_of
from published.markdown_table import out_of_date
from published.paper_tables import trees, verdicts
from published.run_tables import ranking, rescored, runs, search
from published.trunk_tables import ON_TRUNK, from_scratch, questions

KEPT = ("config.toml", "result.json", "metrics.jsonl", "environment.json")


def copy_finished(study: Path, target: Path) -> None:
    """Copy the small files of the study and of its finished runs."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("study.toml", "search.json"):
        if (study / name).exists():
            shutil.copyfile(study / name, target / name)
    for result in sorted((study / "runs").glob("*/result.json")):
        place = target / "runs" / result.parent.name
        place.mkdir(parents=True, exist_ok=True)
        for name in KEPT:
            shutil.copyfile(result.parent / name, place / name)


def fragments(folder: Path) -> dict[str, str]:
    """Return every table of the page by file name, made from the copy alone."""
    results = read_results(folder)
    tables = {
        "scores.md": format_tables(score_tables(results), "markdown"),
        "runs.md": runs(folder, results),
        "ranking.md": ranking(folder, results),
    }
    if folder.name.endswith(ON_TRUNK):  # not the paper's experiment: has the same one beside it
        tables["from_scratch.md"] = from_scratch(folder, results)
        tables["questions.md"] = questions(results)
    elif any(method.endswith("/paper") for method in results.study.methods):
        tables["verdicts.md"] = verdicts(folder, results)
    elif len(results.study.seeds) > 1:
        tables["differences.md"] = differences(folder, results)
    if (folder / "search.json").exists():
        tables["search.md"] = search(folder)
    if (folder / "rescored.json").exists():
        tables["rescored.md"] = rescored(folder, results)
    if (folder / "trees.json").exists():
        tables["trees.md"] = trees(folder)
    return {name: text.rstrip("\n") + "\n" for name, text in tables.items()}


def main() -> int:
    """Copy, write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", type=Path, help="the study's folder, or the copy itself")
    parser.add_argument("target", type=Path, nargs="?", help="where the copy goes")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    args = parser.parse_args()
    folder = args.target or args.study
    if args.target and not args.check:
        copy_finished(args.study, args.target)
    tables = {folder / name: text for name, text in fragments(folder).items()}
    if args.check:
        return out_of_date(tables)
    for path, text in tables.items():
        write_text(path, text)
    results = read_results(folder)
    if (folder / NAMES).exists():  # too many methods for a curve each
        names = names_of(folder, results)
        pictures = draw_differences(results, names, folder / "figures" / "differences")
    else:
        pictures = draw_study(folder, results)
    for path in pictures:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
