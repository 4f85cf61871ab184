"""``fedgrain export``: a trained model for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedgrain.catalogue import EXPORTS
from fedgrain.terminal.arguments import add_json, add_trust, print_json


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "export",
        help="write a trained model for other programs: ONNX, torch.export, Hugging Face",
        description="Write a finished run's model in another format, from stored pixels to the "
        "probability of every node. It is checked against the model's own prediction before it is "
        "written.",
        epilog="Example: fedgrain export runs/one --format onnx --out model.onnx",
    )
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder of a finished run")
    told = "; ".join(f"{name}: {entry.content}" for name, entry in EXPORTS.items())
    parser.add_argument("--format", choices=tuple(EXPORTS), required=True, help=told)
    defaults = ", ".join(entry.default for entry in EXPORTS.values())
    parser.add_argument("--out", type=Path, help=f"where to write (default: in RUN, as {defaults})")
    parser.add_argument(
        "--license",
        metavar="ID",
        help="the model's licence for the card of huggingface, such as apache-2.0 or cc-by-4.0",
    )
    parser.add_argument(
        "--net-weights",
        metavar="FILE",
        help="weights of the model's pretrained trunk, if they are not where they were in training",
    )
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Write the model and say how closely it agrees."""
    from fedgrain.exports.exporting import export

    told = export(
        args.folder,
        args.format,
        args.out,
        licence=args.license,
        trust_code=args.trust_code,
        net_weights=args.net_weights,
    )
    if args.json:
        print_json(told)
        return
    print(f"wrote {told['written']} ({told['bytes'] / 1e6:.1f} MB)")
    print(
        f"checked on {told['images_checked']} drawn images: probabilities differ by at most "
        f"{told['largest_difference']:.1g} from the model's own"
    )
