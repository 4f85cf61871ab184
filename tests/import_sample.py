"""What a sample of a format is: its files, and what a reader must find in them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image


@dataclass(frozen=True)
class Damage:
    """A text in the sample that is replaced, and what the error must say."""

    old: str
    new: str
    told: str  # a regular expression
    file: str = ""
    do: Callable[[Path], None] | None = None  # instead, on the sample's folder: not all is text


@dataclass(frozen=True)
class Sample:
    """Files of one source, and what a reader must find in them."""

    name: str
    format: str
    files: dict[str, str]
    sources: tuple[str, ...]
    labels: dict[str, int]  # images by label
    nodes: int  # of the tree
    images: tuple[str, ...] = ()
    rows: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # site, annotator, split
    options: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("bytes", "lines", "values")
    damages: tuple[Damage, ...] = ()
    mutated: tuple[str, ...] | None = None  # files that are damaged at random; else the first.
    # Of a folder, the names in it are damaged.
    make: Callable[[Path], None] | None = None  # writes what is not text

    def write(self, folder: Path) -> list[Path]:
        """Write the files and images; return the sources."""
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8", newline="")
        if self.make is not None:
            self.make(folder)
        for number, name in enumerate(self.images):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4), (number * 7 % 256, 90, 30)).save(folder / name)
        return [folder / source for source in self.sources]

    def arguments(self, folder: Path) -> list[str]:
        """Return the arguments of ``fedgrain import``."""
        sources = [str(folder / source) for source in self.sources]
        options = [option.format(folder=folder) for option in self.options]
        return ["import", self.format, *sources, "--out", str(folder / "out"), *options]

    def spoil(self, folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
        """Damage the content of a file, or the names of all files in a folder."""
        place = folder / name
        if not place.is_dir():
            place.write_bytes(damage(place.read_bytes()))
            return
        files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
        shutil.rmtree(place)
        place.mkdir()
        for line in damage(b"\n".join(map(os.fsencode, files))).split(b"\n"):
            if b".." not in line.split(b"/"):
                with contextlib.suppress(OSError, ValueError):  # no file can have such a name
                    path = place / os.fsdecode(line.lstrip(b"/"))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()

    @property
    def damaged(self) -> tuple[str, ...]:
        """The files that random damage goes to."""
        return self.sources[:1] if self.mutated is None else self.mutated
