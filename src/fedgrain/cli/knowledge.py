"""``fedgrain knowledge``: what each client knows of the taxonomy, in numbers and pictures."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.cli.taxonomy import (
    add_coarsening,
    add_no_pictures,
    add_source,
    load_full,
    max_children_of,
)
from fedgrain.cores import process_map
from fedgrain.terminal.arguments import add_json, print_json

if TYPE_CHECKING:
    from fedgrain.knowledge import Knowledge
    from fedgrain.taxonomy import Taxonomy


LARGE = 5_000  # nodes from which a tree is worth more processes


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "knowledge",
        help="generate what each client knows: label granularity skew",
        description="Generate what each client knows of the full taxonomy (the paper's Algorithm "
        "1), or read it from your file, and print per client the known classes of the full tree "
        "(root included), the known leaves, the share of leaf classes it can name, the mean "
        "Wu-Palmer similarity among its known classes, and at which depth of the coarsened tree "
        "it labels the leaf classes.",
    )
    add_source(parser)
    add_coarsening(parser)
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument(
        "--alpha", type=float, help="share of leaf classes a client does not know: 0 to 1 - 1/N"
    )
    origin.add_argument(
        "--load", type=Path, metavar="FILE", help="read knowledge.json instead of generating"
    )
    parser.add_argument("--clients", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--seed", type=int, default=47, help="default: 47")
    parser.add_argument(
        "--graph",
        choices=("complete", "tree"),
        default="complete",
        help="a class's neighbours: all others (default), or its parent and children only",
    )
    parser.add_argument(
        "--expertise",
        choices=("random", "coherent"),
        default="random",
        help="known leaves drawn evenly (default), or related to a few seeds per client",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write knowledge.json and, as SVG and PNG, known_classes and mean_similarity over "
        "alpha and trees/client-K, a radial tree per client",
    )
    parser.add_argument(
        "--trees", type=int, metavar="N", help="with --out: draw only the first N clients' trees"
    )
    add_no_pictures(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Generate or read, write and print."""
    from fedgrain.knowledge import Knowledge, knowledge_statistics
    from fedgrain.taxonomy import coarsen

    full, _ = load_full(args)
    knowledge = Knowledge.load(args.load, full) if args.load else _generate(args, full, args.alpha)
    coarse = coarsen(full, max_children_of(args), args.singletons).taxonomy
    clients = knowledge_statistics(knowledge, coarse).as_objects()
    if args.out:
        knowledge.save(args.out / "knowledge.json")
        written: list[Path] = []
        if not args.no_pictures:
            written = [*_draw_trees(args, coarse, knowledge), *_draw_properties(args, full)]
        print(f"wrote knowledge.json and {len(written)} pictures to {args.out}", file=sys.stderr)
    if args.json:
        settings = ("dataset", "alpha", "seed", "graph", "expertise")
        generated = {} if args.load else {name: getattr(args, name) for name in settings}
        trees = {"full": full.properties(), "coarse": coarse.properties()}
        print_json({**generated, "taxonomy": trees, "clients": clients})
    else:
        print(table(clients))


def _generate(args: argparse.Namespace, full: Taxonomy, alpha: float) -> Knowledge:
    settings = {"seed": args.seed, "graph": args.graph, "expertise": args.expertise}
    return _known_at(full, args.clients, alpha, **settings)


def _draw_trees(args: argparse.Namespace, coarse: Taxonomy, knowledge: Knowledge) -> list[Path]:
    """Draw a radial tree of the coarsened taxonomy per client (or annotator)."""
    from tqdm import tqdm

    from fedgrain.pictures.radial_tree import draw_radial_tree

    known = knowledge.on(coarse)  # [rows, nodes]
    count = len(known) if args.trees is None else max(0, min(args.trees, len(known)))
    kind = "client" if knowledge.annotators is None else "annotator"
    skew = "" if args.load else f", alpha {args.alpha:g}"
    written: list[Path] = []
    for row in tqdm(range(count), desc="trees", file=sys.stderr):
        title = f"{knowledge.row_names[row]}{skew}"
        stem = args.out / "trees" / f"{kind}-{row}"
        written.extend(draw_radial_tree(coarse, stem, known[row], title))
    return written


def _draw_properties(args: argparse.Namespace, full: Taxonomy) -> list[Path]:
    """Draw the two property figures over alpha; knowledge from a file has no alpha."""
    from tqdm import tqdm

    from fedgrain.pictures.knowledge_figures import alpha_grid, draw_properties

    if args.load:
        return []
    alphas = alpha_grid(args.clients)
    known_at = partial(
        _known_at, full, args.clients, seed=args.seed, graph=args.graph, expertise=args.expertise
    )
    with process_map(None if len(full) >= LARGE else 1) as mapper:
        found = mapper(known_at, alphas)
        bar = tqdm(zip(alphas, found, strict=True), "alphas", len(alphas), file=sys.stderr)
        return draw_properties(bar, args.out)


def _known_at(full: Taxonomy, clients: int, alpha: float, **settings: Any) -> Knowledge:
    """Generate knowledge in a process of its own, which finds all it needs in its arguments."""
    from fedgrain.knowledge import relational_neighbours

    return relational_neighbours(full, clients, alpha, **settings)


def table(clients: list[dict[str, Any]]) -> str:
    """Return the statistics as text, one line per client."""
    width = max(len("client"), *(len(client["name"]) for client in clients))
    depths = range(len(clients[0]["labelled_at_depth"]))
    heads = f"{'client':<{width}}{'nodes':>7}{'leaves':>8}{'share':>7}{'similarity':>12}"
    lines = [
        f"{'':<{width}}{'known':>15}{'named':>7}{'of known':>12}   leaves labelled at depth",
        heads + "   " + "".join(f"{depth:>6}" for depth in depths),
    ]
    for client in clients:
        similarity = client["mean_similarity"]
        shown = "-" if similarity is None else f"{similarity:.3f}"
        shares = "".join(f"{share:>6.2f}" for share in client["labelled_at_depth"])
        lines.append(
            f"{client['name']:<{width}}{client['known_nodes']:>7}{client['known_leaves']:>8}"
            f"{client['leaf_labelled']:>7.3f}{shown:>12}   {shares}"
        )
    return "\n".join(lines)
