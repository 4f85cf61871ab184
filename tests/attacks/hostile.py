"""Archives, images, models and folders that someone made to do harm.

Every case has a canary: a file outside that must stay as it is, or a marker that must not appear.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from attacks.bad_archives import ARCHIVES, unpacking
from attacks.harness import Case, Told, WrongError, alone, as_command, command, fedgrain_alone
from attacks.inputs import resign
from attacks.world import World, copied

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 20 20
%%EndComments
(pwned) print
showpage
%%EOF
"""
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def cases(world: World, seed: int) -> list[Case]:
    """Return every case; there is nothing random in them."""
    found: dict[str, Callable[[World, Path], None]] = {}
    for name, make in ARCHIVES.items():
        found[f"archive: {name}"] = unpacking(make)
    for name, make in IMAGES.items():
        found[f"image: {name}"] = _image(make)
    for name, content in PICKLES.items():
        found[f"pickle: {name}"] = _pickle(content)
    for name, change in MODELS.items():
        found[f"model: {name}"] = _model(change)
    found |= FOLDERS
    return [Case(name, _bound(world, attempt)) for name, attempt in found.items()]


def _bound(world: World, attempt: Callable[[World, Path], None]) -> Callable[[Path], None]:
    return lambda scratch: attempt(world, scratch)


def refused(told: Told, what: str = "it") -> None:
    """Check that something was refused: in one sentence, or as an image that is not read."""
    if told.judged().code not in (2, 3):
        raise WrongError(f"{what} is not refused")


# images


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _huge_png(path: Path) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    body = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(bytes(1000)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body + _chunk(b"IEND", b""))


def _text_bomb(path: Path) -> None:
    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    text = b"k\x00\x00" + zlib.compress(bytes(200_000_000))
    body = _chunk(b"IHDR", header) + _chunk(b"zTXt", text)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body + _chunk(b"IEND", b""))


def _in_format(form: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        Image.fromarray(np.zeros((20, 20), np.uint8)).save(path, form)

    return make


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.relpath(path))  # a long path is refused


IMAGES: dict[str, Callable[[Path], None]] = {
    "an EPS named .png": lambda path: path.write_bytes(EPS) and None,
    "a PCX named .png": _in_format("PCX"),
    "a PDF named .png": lambda path: path.write_bytes(b"%PDF-1.4\n1 0 obj\n") and None,
    "an SVG named .png": lambda path: path.write_text("<svg onload='alert(1)'/>") and None,
    "a named pipe": lambda path: os.mkfifo(path),
    "a socket": _socket,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "3,600 million pixels": _huge_png,
    "a text of 200 MB": _text_bomb,
    "nothing": lambda path: path.touch(),
}


def _image(make: Callable[[Path], Any]) -> Callable[[World, Path], None]:
    def attempt(world: World, scratch: Path) -> None:
        tools, marker = scratch / "bin", scratch / "started"
        tools.mkdir()
        for name in ("gs", "gswin32c", "gswin64c", "convert", "rsvg-convert", "inkscape"):
            (tools / name).write_text(f"#!/bin/sh\ntouch '{marker}'\nexit 1\n")
            (tools / name).chmod(0o755)
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        path = scratch / "photo.png"
        make(path)
        told = fedgrain_alone("predict", world.root / "fedavg-run", path, seconds=20)
        if marker.exists():
            raise WrongError("a program was started")
        refused(told)
        data = copied(world.data, scratch / "data")
        (data / "5.png").unlink()
        make(data / "5.png")
        os.environ["FEDGRAIN_CACHE"] = str(scratch / "cache")
        shown = fedgrain_alone("data", "show", "--dataset", "folder", "--root", data, "--json",
                               seconds=20)  # fmt: skip
        if marker.exists():
            raise WrongError("a program was started")
        refused(shown, "the folder")  # one of 60 is more than a hundredth

    return attempt


# pickles


class _Runs:
    """Touches a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("started",)


PICKLES: dict[str, Callable[[], bytes]] = {
    "that runs a function": lambda: pickle.dumps({b"data": _Runs()}),
    "that runs it in protocol 0": lambda: pickle.dumps({b"data": _Runs()}, 0),
    "that asks for eval": lambda: b'cbuiltins\neval\n(S\'__import__("os").mkdir("started")\'\ntR.',
    "that asks for os.system": lambda: b"cos\nsystem\n(S'mkdir started'\ntR.",
    "that asks by a dotted name": lambda: b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.__new__\x93.",
    "that asks for an outside object": lambda: b"P1\n.",
    "of 100,000 brackets": lambda: b"(" * 100_000 + b".",
    "of a list in itself": lambda: b"](lp0\ng0\na.",
    "of an array of objects": lambda: pickle.dumps({b"data": np.array([{}], dtype=object)}),
    "of an enormous array": lambda: pickle.dumps({b"data": np.broadcast_to(np.uint8(0), 1)}),
}


def _pickle(content: Callable[[], bytes]) -> Callable[[World, Path], None]:
    def attempt(world: World, scratch: Path) -> None:
        from fedgrain.data.cifar100 import load_cifar100

        for name in ("train", "test", "meta"):
            (scratch / name).write_bytes(content())
        os.environ["FEDGRAIN_CACHE"] = str(scratch / "cache")
        for check in (True, False):
            refused(alone(lambda c=check: as_command(lambda: load_cifar100(scratch, check=c))))
        if (scratch / "started").exists():
            raise WrongError("code in a pickle ran")

    return attempt


# models

MODELS: dict[str, Callable[[Path], None]] = {
    name: (lambda run, k=key, v=value: _forge(run / "model.json", k, v))
    for name, key, value in (
        ("its net is os:_exit", "net", "os:_exit"),
        ("its net is os:abort", "net", "os:abort"),
        ("its net is builtins:exec", "net", "builtins:exec"),
        ("its net is a module beside it", "net", "evil:Net"),
        ("its head is os:_exit", "head", "os:_exit"),
        ("its head is a module beside it", "head", "evil:Head"),
        ("its images have 10^9 pixels", "image_shape", [30_000, 30_000, 3]),
        ("its images have 10^300 pixels", "image_shape", [10**300, 32, 3]),
        ("its images have -1 pixels", "image_shape", [-1, -1, -1]),
        ("its mean is nothing", "mean", []),
        ("its deviation is 0", "deviation", [0, 0, 0]),
        ("its branches are a text", "branches", "yes"),
    )
}


def _forge(file: Path, key: str, value: object) -> None:
    content = json.loads(file.read_text())
    content[key] = value
    file.write_text(json.dumps(content))
    resign(file)


def _model(change: Callable[[Path], None]) -> Callable[[World, Path], None]:
    def attempt(world: World, scratch: Path) -> None:
        run = copied(world.root / "fedavg-run", scratch / "run")
        for place in (run, scratch):
            (place / "evil.py").write_text("import os\nos.mkdir('started')\nNet = Head = None\n")
        change(run)
        images = world.data / "3.png"
        for arguments in (("predict", run, images), ("evaluate", run),
                          ("report", run, "--out", scratch / "r.html")):  # fmt: skip
            told = fedgrain_alone(*arguments)
            if (scratch / "started").exists() or (run / "started").exists():
                raise WrongError(f"{arguments[0]} ran a module that came with the model")
            if told.judged().code == 0 and arguments[0] != "report":
                raise WrongError(f"{arguments[0]} takes it")

    return attempt


# folders of users


def _keeps_parts(world: World, scratch: Path) -> None:
    place = scratch / "films"
    place.mkdir()
    (place / ".movie.mkv.part").write_text("mine")
    refused(fedgrain_alone(*world.run_arguments("fedavg", place)))
    if sorted(p.name for p in place.iterdir()) != [".movie.mkv.part"]:
        raise WrongError(f"the folder holds {[p.name for p in place.iterdir()]}")


def _lock_is_a_link(world: World, scratch: Path) -> None:
    precious, place = scratch / "precious", scratch / "run"
    precious.write_text("mine")
    place.mkdir()
    (place / ".lock").symlink_to(precious)
    fedgrain_alone(*world.run_arguments("fedavg", place)).judged()
    if precious.read_text() != "mine":
        raise WrongError("the lock was written through a link")


def _file_is_a_link(name: str, source: str) -> Callable[[World, Path], None]:
    def attempt(world: World, scratch: Path) -> None:
        precious = scratch / "precious"
        place = copied(world.root / source, scratch / "run")
        if (place / name).exists():
            (place / name).rename(precious)
        else:
            precious.write_text("mine")
        before = precious.read_bytes()
        (place / name).symlink_to(precious)
        fedgrain_alone(*world.run_arguments("fedavg", place), "--rounds", "3").judged()
        if precious.read_bytes() != before:
            raise WrongError(f"{name} was written through a link")

    return attempt


def _pipe_in_run(name: str) -> Callable[[World, Path], None]:
    def attempt(world: World, scratch: Path) -> None:
        place = copied(world.root / "fedavg-run", scratch / "run")
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)
        uses = [
            ("predict", place, world.data / "3.png"),
            ("report", place, "--no-images"),
            world.run_arguments("fedavg", place),
        ]
        for arguments in uses:
            alone(lambda a=arguments: command(*a), seconds=20).judged()

    return attempt


def _run_with_names(world: World, scratch: Path, name: str) -> tuple[Path, bool]:
    """Run on data whose classes all have a name that begins so; return where, and if it worked."""
    data = copied(world.data, scratch / "data")
    text = (data / "taxonomy.csv").read_text().splitlines()
    named = [f'{line},"{name} {n}"' for n, line in enumerate(text[1:])]
    (data / "taxonomy.csv").write_text("\n".join(["parent,child,name", *named]) + "\n")
    config = scratch / "c.toml"
    original = (world.root / "fedavg.toml").read_text()
    config.write_text(original.replace(str(world.data), str(data)))
    os.environ["FEDGRAIN_CACHE"] = str(scratch / "cache")
    run = scratch / "run"
    return run, not fedgrain_alone(*world.run_arguments("fedavg", run, config)).judged().code


def _script_in_names(world: World, scratch: Path) -> None:
    run, worked = _run_with_names(world, scratch, SCRIPT)
    if not worked:
        raise WrongError("a run over such names fails")
    page = scratch / "r.html"
    if fedgrain_alone("report", run, "--out", page).judged().code:
        raise WrongError("a report over such names fails")
    if SCRIPT in page.read_text():
        raise WrongError("a name became part of the page")


def _escapes_in_names(world: World, scratch: Path) -> None:
    run, worked = _run_with_names(world, scratch, "\x1b[2J\x07")
    if not worked:
        return  # refused in a sentence is as good
    told = fedgrain_alone("predict", run, world.data / "3.png").judged()
    if not told.out.rstrip("\n").replace("\n", " ").isprintable():
        raise WrongError(f"predict prints {told.out[:100]!r}")


FOLDERS: dict[str, Callable[[World, Path], None]] = {
    "folder: a film that is being downloaded": _keeps_parts,
    "folder: .lock is a link": _lock_is_a_link,
    **{f"folder: {name} is a link in a run that goes on": _file_is_a_link(name, "fedavg-run")
       for name in ("metrics.jsonl", "state.safetensors", "result.json", "config.toml",
                    "best.safetensors", "model.json", "environment.json")},
    **{f"folder: {name} is a named pipe": _pipe_in_run(name)
       for name in ("config.toml", "model.json", "best.safetensors", "result.json",
                    "metrics.jsonl", ".lock", "environment.json", "state.safetensors")},
    "page: a script for a name": _script_in_names,
    "terminal: escapes for names": _escapes_in_names,
}  # fmt: skip
