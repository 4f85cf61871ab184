"""``fedgrain taxonomy``: from a list of classes to the coarsened tree."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import DATASETS, OWN_TREE_MAX_CHILDREN, WITH_CLASSES, dataset
from fedgrain.terminal.arguments import add_json, print_json

if TYPE_CHECKING:
    from fedgrain.taxonomy import SettledGraph, Taxonomy

_SHOWN = 10  # classes listed; --json lists all


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "taxonomy",
        help="build a class hierarchy and coarsen it",
        description="Build the full taxonomy over a data set's classes (from WordNet 3.0, or your "
        "own tree) and coarsen it: negligible inner classes are merged into their parents as long "
        "as the silhouette score of the split gets better. Prints the properties of both trees.",
    )
    add_source(parser)
    add_coarsening(parser)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write both trees there: full.csv and coarse.csv (edges), full.json and coarse.json "
        "(everything), and a picture of each as SVG and PNG; of a tree of more than 1,200 leaves "
        "the picture shows the upper levels, and an HTML page all",
    )
    add_no_pictures(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def add_no_pictures(parser: argparse.ArgumentParser) -> None:
    """Add ``--no-pictures``."""
    parser.add_argument(
        "--no-pictures", action="store_true", help="with --out: write data only, no pictures"
    )


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the three places a taxonomy comes from."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--dataset", choices=WITH_CLASSES, help="the classes of a data set")
    source.add_argument(
        "--wnids",
        type=Path,
        metavar="FILE",
        help="a text file with one noun per line: a WordNet 3.0 id (n02084071), a sense name "
        "(dog.n.01) or a noun with a single sense",
    )
    source.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="your own tree: a CSV file with header parent,child[,name]",
    )
    parser.add_argument(
        "--dag",
        action="store_true",
        help="with --csv: a class may have several parents; keep its longest path to the root; "
        "classes that lose all children this way stay as leaves and are named",
    )
    parser.add_argument(
        "--root",
        metavar="NOUN",
        help="with --dataset or --wnids: the noun at the top (default: physical_entity)",
    )


def add_coarsening(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the coarsening."""
    parser.add_argument(
        "--max-children",
        type=int,
        metavar="M",
        help="the most children a coarsened node may get (default: "
        + ", ".join(f"{name} {DATASETS[name].max_children}" for name in WITH_CLASSES)
        + f", else {OWN_TREE_MAX_CHILDREN})",
    )
    parser.add_argument(
        "--singletons",
        choices=("cohesive", "neutral"),
        default="cohesive",
        help="how a cluster of one class scores: 1 (cohesive, default) or 0 (neutral, textbook)",
    )


def load_full(args: argparse.Namespace) -> tuple[Taxonomy, SettledGraph | None]:
    """Return the full taxonomy the arguments ask for and, with --dag, how parents were settled."""
    from fedgrain.errors import TaxonomyError
    from fedgrain.taxonomy import read_csv, read_dag

    if args.dag and not args.csv:
        raise TaxonomyError(
            "--dag works only with --csv; with WordNet, several parents are always reduced to one"
        )
    if args.root and args.csv:
        raise TaxonomyError(
            "--root works only with --dataset and --wnids; a CSV tree has its own root"
        )
    if args.dag:
        settled = read_dag(args.csv)
        print(_settling_note(settled), file=sys.stderr)
        return settled.taxonomy, settled
    return read_csv(args.csv) if args.csv else _from_nouns(args), None


def _settling_note(settled: SettledGraph) -> str:
    """Return a sentence on the edges that --dag dropped."""
    lost = settled.became_leaves
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    named = f": {', '.join(lost[:_SHOWN])}{more}" if lost else ""
    return (
        f"--dag: {len(settled.dropped_edges)} edges to further parents were dropped; "
        f"{len(lost)} classes whose children all went to other parents stay as leaves{named}"
    )


def _from_nouns(args: argparse.Namespace) -> Taxonomy:
    """Build the taxonomy over a data set's classes, or over a list of nouns."""
    from fedgrain.taxonomy import class_list, full_taxonomy

    root = args.root or "physical_entity"
    if args.dataset == "glyphs":
        from fedgrain.data.glyphs import CLASSES

        return full_taxonomy(CLASSES, root)
    if args.dataset:
        classes = class_list(args.dataset)
        return full_taxonomy(classes.wnids, root, names=classes.names)
    return full_taxonomy(_read_nouns(args.wnids), root)


def _read_nouns(path: Path) -> list[str]:
    """Read one noun per line and return their wnids; an unknown one is named with its line."""
    from fedgrain.errors import TaxonomyError
    from fedgrain.files import read_text
    from fedgrain.taxonomy import wordnet

    found = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        word = line.split("#")[0].strip()
        if word:
            try:
                found.append(wordnet().find(word))
            except TaxonomyError as error:
                raise TaxonomyError(f"{path}, line {number}: {error}") from None
    if not found:
        raise TaxonomyError(f"{path}: the file names no class; write one noun per line")
    return found


def max_children_of(args: argparse.Namespace) -> int:
    """Return M as given, or the default of the data set."""
    if args.max_children is not None:
        return int(args.max_children)
    return dataset(args.dataset).max_children if args.dataset else OWN_TREE_MAX_CHILDREN


def run(args: argparse.Namespace) -> None:
    """Build, coarsen, write and print."""
    from fedgrain.taxonomy import coarsen

    full, settled = load_full(args)
    coarsening = coarsen(full, max_children_of(args), args.singletons)
    trees = {"full": full, "coarse": coarsening.taxonomy}
    if args.out:
        write(trees, args.out, pictures=not args.no_pictures)
    rows: dict[str, dict[str, Any]] = {
        name: dict(tree.properties()) for name, tree in trees.items()
    }
    rows["coarse"]["exact"] = coarsening.exact
    rows["coarse"]["searched"] = [
        {"node": d.node, "subsets": d.subsets, "score": d.score, "at_most": d.at_most}
        for d in coarsening.searched
    ]
    if not args.json:
        print(table(full.names[0], rows))
    elif settled is None:
        print_json(rows)
    else:
        lost, dropped = settled.became_leaves, settled.dropped_edges
        print_json({**rows, "dag": {"became_leaves": lost, "dropped_edges": dropped}})


def write(trees: dict[str, Taxonomy], folder: Path, *, pictures: bool) -> None:
    """Write each tree as edges, in full and, if wanted, as a picture."""
    from fedgrain.taxonomy import write_csv, write_json

    for name, tree in trees.items():
        write_csv(tree, folder / f"{name}.csv")
        write_json(tree, folder / f"{name}.json")
    drawn = _draw(trees, folder) if pictures else []
    kinds = dict.fromkeys([".csv", ".json", *(path.suffix for path in drawn)])
    print(f"wrote {', '.join(trees)} as {', '.join(kinds)} to {folder}", file=sys.stderr)


def _draw(trees: dict[str, Taxonomy], folder: Path) -> list[Path]:
    """Draw each tree; one that is too large for a picture gets a page as well."""
    from tqdm import tqdm

    from fedgrain.pictures.drawn_part import drawn_part
    from fedgrain.pictures.radial_tree import draw_radial_tree
    from fedgrain.report.html import write_tree_page

    written: list[Path] = []
    for name, tree in tqdm(trees.items(), desc="pictures", file=sys.stderr):
        written += draw_radial_tree(tree, folder / name)
        if drawn_part(tree).caption:
            written.append(write_tree_page(tree, folder / f"{name}.html"))
    return written


def table(root_name: str, rows: dict[str, dict[str, Any]]) -> str:
    """Return the properties of both trees as text."""
    lines = [f"{'tree under ' + root_name:<34}{'full':>8}{'coarse':>10}"]
    titles = {
        "nodes": "classes in all",
        "internal": "inner classes (with the root)",
        "max_depth": "largest depth (root 0)",
        "mean_children": "mean children of inner classes",
    }
    for key, title in titles.items():
        full, coarse = (
            f"{rows[tree][key]:.2f}" if key == "mean_children" else str(rows[tree][key])
            for tree in rows
        )
        lines.append(f"{title:<34}{full:>8}{coarse:>10}")
    return "\n".join([*lines, *_how_exact(rows["coarse"]["searched"])])


def _how_exact(searched: list[dict[str, Any]]) -> list[str]:
    """Return whether every merge is optimal and, where not, how far off it may be."""
    if not searched:
        return ["every merge is optimal over all subsets"]
    lines = [
        f"{len(searched)} inner classes had too many subsets of children to try them all; "
        "their merges come from a search:"
    ]
    for found in sorted(searched, key=lambda found: found["score"] - found["at_most"])[:_SHOWN]:
        lines.append(
            f"  {found['node']}: {found['subsets']:.3g} subsets, score {found['score']:.4f}, "
            f"the optimum is at most {found['at_most']:.4f}"
        )
    if len(searched) > _SHOWN:
        lines.append(f"  and {len(searched) - _SHOWN} more (--json names all)")
    return lines
