"""``fedgrain data``: download benchmarks, list the data sets found, show one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgrain.catalogue import DATASETS, DOWNLOADABLE
from fedgrain.terminal.arguments import add_json, add_trust, print_json
from fedgrain.terminal.data_text import fix_lines, folder_json, folder_lines
from fedgrain.terminal.labeller_text import FoundLabellers

if TYPE_CHECKING:
    from fedgrain.data import LabelledImages
    from fedgrain.folders.folder_report import FolderReport

SOMETHING_LEFT = 3  # exit code of ``fix``: the copy still has mistakes
_SIZE = 64  # pixels of a side of a folder's images

_OPTIONS = ("size", "per_class", "seed", "manifest", "taxonomy", "max_unreadable", "allow_links")


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "data",
        help="get, list and show data sets",
        description="Data sets are searched in the directory FEDGRAIN_DATA names, then in the "
        "cache directory (FEDGRAIN_CACHE, or the user's), unpacked or as archives.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    get = actions.add_parser("get", help="download a benchmark from its official address")
    get.add_argument("dataset", choices=DOWNLOADABLE)
    get.set_defaults(run=_run_get)
    listing = actions.add_parser("list", help="list the data sets found and where")
    add_json(listing)
    listing.set_defaults(run=_run_list)
    _add_show(actions)
    _add_fix(actions)


def _add_show(actions: Any) -> None:
    """Add ``fedgrain data show``."""
    show = actions.add_parser("show", help="print counts, size and classes; draw contact sheets")
    show.add_argument(
        "--dataset",
        required=True,
        metavar="NAME",
        help=f"{', '.join(DATASETS)}, or your own function as module:callable",
    )
    show.add_argument("--root", type=Path, metavar="DIR", help="where its files are")
    show.add_argument("--size", type=int, help="side of the images (imagenet 224, folder 64)")
    show.add_argument(
        "--per-class", type=int, metavar="N", help="imagenet: training images per class"
    )
    show.add_argument("--seed", type=int, help="of the sample (imagenet) or the drawing (glyphs)")
    show.add_argument("--manifest", type=Path, metavar="CSV", help="folder: if not images.csv")
    show.add_argument("--taxonomy", type=Path, metavar="CSV", help="folder: if not taxonomy.csv")
    show.add_argument(
        "--max-unreadable", type=float, metavar="SHARE", help="of images to skip (default 0.01)"
    )
    show.add_argument(
        "--allow-links",
        action="store_true",
        default=None,
        help="folder: follow links to images outside it",
    )
    show.add_argument(
        "--model",
        type=Path,
        metavar="RUN",
        help="a finished run: also say what each labeller seems to know, how often it stops "
        "early, and which labels look wrong",
    )
    add_trust(show)
    show.add_argument(
        "--out", type=Path, metavar="DIR", help="draw a contact sheet per branch of the taxonomy"
    )
    add_json(show)
    show.set_defaults(run=_run_show)


def _add_fix(actions: Any) -> None:
    """Add ``fedgrain data fix``."""
    fix = actions.add_parser(
        "fix",
        help="write a corrected copy of a manifest",
        description="Correct what is clear: case, spaces, misspelt labels with one near name, "
        "names of files in another case. List every change, and what is left for you; the manifest "
        f"itself is never changed. Exit code {SOMETHING_LEFT} if something is left.",
    )
    fix.add_argument("--root", type=Path, metavar="DIR", help="the folder of the images")
    fix.add_argument("--manifest", type=Path, metavar="CSV", help="if not images.csv in it")
    fix.add_argument("--taxonomy", type=Path, metavar="CSV", help="if not taxonomy.csv in it")
    fix.add_argument(
        "--out", type=Path, metavar="CSV", help="default: images-fixed.csv beside the manifest"
    )
    fix.add_argument("--replace", action="store_true", help="write over an earlier copy")
    add_json(fix)
    fix.set_defaults(run=_run_fix)


def _run_get(args: argparse.Namespace) -> None:
    """Download and unpack."""
    from fedgrain.data.download import get

    print(f"{args.dataset} is in {get(args.dataset)}")


def _run_list(args: argparse.Namespace) -> None:
    """Print where each data set is found."""
    from fedgrain.data.load import layouts
    from fedgrain.images.places import data_directories, find_source

    found = {name: find_source(layout) for name, layout in layouts().items()}
    searched = [str(place) for place in data_directories()]
    if args.json:
        places = {name: None if path is None else str(path) for name, path in found.items()}
        print_json({"searched": searched, "found": {"glyphs": "built in", **places}})
        return
    print(f"searched: {', then '.join(searched)}")
    print(f"{'glyphs':<15}built in")
    for name, path in found.items():
        hint = f"not found; fedgrain data get {name}" if name in DOWNLOADABLE else "not found"
        print(f"{name:<15}{hint if path is None else path}")


def _run_show(args: argparse.Namespace) -> None:
    """Load, print and draw."""
    data, report, paths = _loaded(args)
    found = _labellers(args, data) if args.model else None
    if args.out:
        from fedgrain.images.contact_sheet import write_contact_sheets

        sheets = write_contact_sheets(data, args.out)
        print(f"drew {len(sheets)} contact sheets in {args.out}", file=sys.stderr)
    if args.json:
        shown = {**(folder_json(report) if report else {}), **as_json(data)}
        print_json({**shown, **({"labellers": found.as_json(paths)} if found else {})})
        return
    if report:
        print("\n".join(folder_lines(report)) + "\n")
    print(describe(data))
    if found:
        print("\n" + "\n".join(found.lines(paths)))


def _run_fix(args: argparse.Namespace) -> int:
    """Write the copy and list the changes; return the exit code."""
    from dataclasses import asdict

    from fedgrain.folders.folder import MANIFEST, folder_named, read_tree
    from fedgrain.folders.manifest_fix import fix_manifest

    folder = folder_named(args.root, args.manifest)
    manifest = args.manifest or folder / MANIFEST
    out = args.out or manifest.with_name(f"{manifest.stem}-fixed.csv")
    fixed = fix_manifest(manifest, read_tree(folder, args.taxonomy), out, replace=args.replace)
    if args.json:
        print_json({**asdict(fixed), "out": str(out)})
    else:
        print("\n".join(fix_lines(fixed)))
    return SOMETHING_LEFT if fixed.left else 0


def _labellers(args: argparse.Namespace, data: LabelledImages) -> FoundLabellers:
    """Ask the model of a run about the labels."""
    from fedgrain.models.label_check import check_labels, wrote_by_site
    from fedgrain.models.model_folder import load

    model = load(args.model, trust_code=args.trust_code)
    images = model.inputs(data)
    sites = wrote_by_site(model, data)
    found = [finding for site in sites for finding in check_labels(model, images, site)]
    return FoundLabellers(found, model.taxonomy)


def _loaded(
    args: argparse.Namespace,
) -> tuple[LabelledImages, FolderReport | None, list[str] | None]:
    """Load the data set the arguments ask for; report on a folder of images, with their files.

    A folder is shown however many of its images are unreadable, unless the user sets the share.
    """
    from fedgrain.data import load_dataset

    options = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.dataset != "folder":
        return load_dataset(args.dataset, root=args.root, **options), None, None
    from fedgrain.folders.folder import load_listed
    from fedgrain.folders.folder_report import report_folder
    from fedgrain.images.decode import Decoding

    decoding = Decoding(
        args.size or _model_side(args) or _SIZE,
        1.0 if args.max_unreadable is None else args.max_unreadable,
    )
    listed = load_listed(
        args.root, args.manifest, args.taxonomy, decoding, allow_links=bool(args.allow_links)
    )
    paths = [str(listed.rows.paths[row]) for row in listed.stored.labels.tolist()]
    return listed.labelled(), report_folder(listed), paths


def _model_side(args: argparse.Namespace) -> int | None:
    """Return the side of the images that the given model takes."""
    if not args.model:
        return None
    from fedgrain.models.model_folder import load

    return load(args.model, trust_code=args.trust_code).image_shape[0]


def as_json(data: LabelledImages) -> dict[str, Any]:
    """Return the content of :func:`describe` as JSON."""
    import numpy as np

    tree = data.taxonomy
    depths, counts = np.unique(tree.depth[data.labels], return_counts=True)
    return {
        "images": data.split_counts,
        "classes": len(tree.leaves),
        "nodes": len(tree),
        "depth": int(tree.depth.max()),
        "shape": [*data.size, data.channels],
        "labels_by_depth": dict(zip(map(str, depths.tolist()), counts.tolist(), strict=True)),
        "clients": list(data.client_names),
        "annotators": list(data.annotator_names),
        "unreadable": list(data.unreadable),
    }


def describe(data: LabelledImages) -> str:
    """Return counts per split, size and classes as text."""
    import numpy as np

    tree = data.taxonomy
    height, width = data.size
    lines = [f"{data.name}: {len(data):,} images of {height}x{width}, {data.channels} channels"]
    lines += [f"  {split:<12}{count:>9,}" for split, count in data.split_counts.items()]
    lines.append(
        f"{len(tree.leaves)} leaf classes in a tree of {len(tree)} nodes, depth {tree.depth.max()}"
    )
    depths, counts = np.unique(tree.depth[data.labels], return_counts=True)
    lines += [
        f"  labels at depth {depth}{count:>9,}" for depth, count in zip(depths, counts, strict=True)
    ]
    for what, names in (("clients", data.client_names), ("annotators", data.annotator_names)):
        if names:
            lines.append(
                f"{len(names)} {what}: {', '.join(names[:10])}{' ...' * (len(names) > 10)}"
            )
    if data.unreadable:
        lines.append(f"{len(data.unreadable)} unreadable images skipped:")
        lines += [f"  {text}" for text in data.unreadable]
    return "\n".join(lines)
