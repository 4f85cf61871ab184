"""Mutated and hostile inputs for every parser: done, or one sentence; never a traceback.

Each parser gets a good file with random damage of its own kind (bytes, lines, fields, values of a
JSON tree), and the hostile texts of SPECIALS.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from attacks.harness import Case, Told, as_command, called, fedgrain
from attacks.mutations import SPECIALS, mutated
from attacks.world import World, copied

MUTATIONS = 60  # of every parser


@dataclass(frozen=True)
class Parser:
    """A reader of files: a good one, how to read it, and how else to damage it than by bytes."""

    name: str
    good: bytes
    read: Callable[[Path], Told]
    kinds: tuple[str, ...] = ("bytes",)
    file: str = "input"
    specials: bool = True


def cases(world: World, seed: int) -> list[Case]:
    """Return a case per damaged file of every parser."""
    found = []
    for parser in parsers(world):
        for number in range(MUTATIONS):
            kind = parser.kinds[number % len(parser.kinds)]
            name = f"{parser.name}: {kind} {number}"
            found.append(Case(name, _mutating(parser, kind, f"{seed} {name}")))
        for label, text in SPECIALS.items() if parser.specials else ():
            found.append(Case(f"{parser.name}: {label}", _given(parser, text)))
    return found


def _mutating(parser: Parser, kind: str, seed: str) -> Callable[[Path], None]:
    def attempt(scratch: Path) -> None:
        _given(parser, mutated(parser.good, kind, random.Random(seed)))(scratch)

    return attempt


def _given(parser: Parser, content: bytes) -> Callable[[Path], None]:
    def attempt(scratch: Path) -> None:
        file = scratch / parser.file
        file.write_bytes(content)
        parser.read(file).judged()

    return attempt


# parsers


def parsers(world: World) -> list[Parser]:
    """Return every parser of files that people write or send."""
    tree = world.data / "taxonomy.csv"
    manifest = (world.data / "images.csv").read_text()
    lines = manifest.splitlines()
    absolute = "\n".join([lines[0], *(f"{world.data}/{line}" for line in lines[1:])]) + "\n"
    knowledge = json.dumps([
        {"client": f"site{n}", "known": ["root", "inner0", "leaf0"] if n else ["root", "inner1"]}
        for n in range(3)
    ])  # fmt: skip
    text = ("bytes", "lines", "values")
    return [
        Parser("taxonomy CSV", tree.read_bytes(), lambda f: fedgrain("taxonomy", "--csv", f), text),
        Parser("taxonomy CSV as a DAG", tree.read_bytes(),
               lambda f: fedgrain("taxonomy", "--csv", f, "--dag"), text),
        Parser("list of nouns", b"n02084071\ndog.n.01\nkite.n.04\ncat.n.01\n",
               lambda f: fedgrain("taxonomy", "--wnids", f), text),
        Parser("taxonomy JSON", _tree_json(tree), _part("fedgrain.taxonomy", "read_json"),
               ("bytes", "json")),
        Parser("manifest", absolute.encode(), _shown(world), text),
        Parser("refined manifest", _refined(lines),
               lambda f: fedgrain("refine", "--undo", f, "--out", f.parent / "undone.csv"), text),
        Parser("answers of a review", _answers(lines),
               _part("fedgrain.refinement.review_answers", "AnswerLog"), ("lines", "bytes")),
        Parser("config", (world.root / "fedavg.toml").read_bytes(), _config, text),
        Parser("knowledge", knowledge.encode(),
               lambda f: fedgrain("knowledge", "--csv", tree, "--load", f), ("bytes", "json")),
        Parser("study", (world.root / "study.toml").read_bytes(),
               lambda f: fedgrain("study", f, "--dry-run"), text, "input.toml"),
        Parser("model.json", (world.root / "fedavg-run/model.json").read_bytes(),
               _in_run(world, "model.json"), ("json", "json", "bytes")),
        Parser("result.json", (world.root / "fedavg-run/result.json").read_bytes(),
               _in_run(world, "result.json"), ("json", "bytes")),
        Parser("metrics.jsonl", (world.root / "fedavg-run/metrics.jsonl").read_bytes(),
               _in_run(world, "metrics.jsonl"), ("lines", "bytes")),
        Parser("search.json", (world.study / "search.json").read_bytes(), _in_study(world),
               ("json", "bytes")),
        Parser("safetensors", (world.root / "fedavg-run/best.safetensors").read_bytes(),
               _in_run(world, "best.safetensors"), specials=False),
        Parser("app config", (world.federation / "app/pyproject.toml").read_bytes(),
               _in_app(world, "pyproject.toml"), text),
        Parser("CIFAR pickle", _cifar(), _part("fedgrain.data.cifar100", "read_pickle")),
        *(Parser(f"image {form}", _image(form), _predicted(world), file=f"input.{form.lower()}",
                 specials=form == "PNG")
          for form in ("PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP")),
        *(Parser(f"archive {ending}", _archive(ending), _unpacked, file=f"input.{ending}",
                 specials=ending == "zip")
          for ending in ("zip", "tar", "tar.gz", "tar.xz")),
    ]  # fmt: skip


def _part(module: str, name: str) -> Callable[[Path], Told]:
    def read(file: Path) -> Told:
        from importlib import import_module

        return called(lambda: as_command(lambda: getattr(import_module(module), name)(file)))

    return read


def _config(file: Path) -> Told:
    from fedgrain.config.config_texts import read_config

    return called(lambda: as_command(lambda: read_config(file).complete().toml()))


def _shown(world: World) -> Callable[[Path], Told]:
    def read(file: Path) -> Told:
        os.environ["FEDGRAIN_CACHE"] = str(file.parent / "cache")
        return fedgrain("data", "show", "--dataset", "folder", "--manifest", file, "--size", "8",
                        "--taxonomy", world.data / "taxonomy.csv")  # fmt: skip

    return read


def _in_run(world: World, name: str) -> Callable[[Path], Told]:
    """Put the file into a finished run; with a right checksum where it can be given one."""

    def read(file: Path) -> Told:
        run = copied(world.root / "fedavg-run", file.parent / "run")
        (run / name).write_bytes(file.read_bytes())
        resign(run / name)
        fedgrain("report", run, "--no-images", "--out", file.parent / "r.html").judged()
        fedgrain("evaluate", run).judged()
        return fedgrain("predict", run, world.data / "3.png")

    return read


def _in_study(world: World) -> Callable[[Path], Told]:
    def read(file: Path) -> Told:
        study = copied(world.study, file.parent / "study")
        (study / "search.json").write_bytes(file.read_bytes())
        resign(study / "search.json")
        fedgrain("table", study, "--json").judged()
        return fedgrain("report", study, "--no-images", "--out", file.parent / "r.html")

    return read


def _in_app(world: World, name: str) -> Callable[[Path], Told]:
    def read(file: Path) -> Told:
        app = copied(world.federation / "app", file.parent / "app")
        (app / name).write_bytes(file.read_bytes())
        return fedgrain("flower", "check", "--app", app, "--images", world.data / "images.csv",
                        "--site", "a")  # fmt: skip

    return read


def resign(file: Path) -> None:
    """Give a JSON file the checksum of its content, as someone who forges it would."""
    try:
        from fedgrain.checksums import write_checked
    except ImportError:
        return
    try:
        content = json.loads(file.read_bytes())
        if isinstance(content, dict):
            content.pop("sha256", None)
            write_checked(file, content)
    except (ValueError, RecursionError, TypeError):
        return


def _predicted(world: World) -> Callable[[Path], Told]:
    return lambda file: fedgrain("predict", world.root / "fedavg-run", file)


def _unpacked(file: Path) -> Told:
    from fedgrain.images.archives import unpack

    return called(lambda: as_command(lambda: unpack(file, file.parent / "unpacked")))


def _refined(lines: list[str]) -> bytes:
    header, *rows = lines[:20]
    origin = "given_label,given_annotator,source,proposal,probability"
    return "\n".join(
        [f"{header},{origin}", *(f"{row},root,,model,leaf0,0.97" for row in rows)]
    ).encode()


def _answers(lines: list[str]) -> bytes:
    said = [
        {"path": row.split(",")[0], "answer": answer, "label": "leaf0", "annotator": "Ana"}
        for row, answer in zip(lines[1:], ("accept", "pick", "unsure", "undo"), strict=False)
    ]
    return "\n".join(map(json.dumps, said)).encode()


def _tree_json(csv: Path) -> bytes:
    from fedgrain.taxonomy import read_csv, to_json

    return json.dumps(to_json(read_csv(csv))).encode()


def _cifar() -> bytes:
    return pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [1, 2]}, 2)


def _image(form: str) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(3).integers(0, 256, (24, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def _archive(ending: str) -> bytes:
    file = io.BytesIO()
    names = {f"folder/{number}.txt": bytes([number]) * 300 for number in range(5)}
    if ending == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in names.items():
                zipped.writestr(name, content)
    else:
        mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[ending]
        with tarfile.open(fileobj=file, mode=mode) as tar:
            for name, content in names.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return file.getvalue()
