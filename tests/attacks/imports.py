"""Damaged sources for every format of ``fedgrain import``: 500 mutations each, and hostile texts.

What goes wrong is told in one sentence that names the file, and nothing is written; what goes well
is a folder that can be read.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from attacks.harness import Case, WrongError, fedgrain
from attacks.mutations import SPECIALS, mutated
from attacks.world import World
from import_sample import Sample
from import_samples import SAMPLES

MUTATIONS = 500  # of every sample
Damage = Callable[[bytes], bytes]
_WRITTEN: dict[str, Path] = {}  # samples that this process has written, to copy from


def cases(world: World | None, seed: int) -> list[Case]:
    """Return a case per damaged source; the world is not needed."""
    found = []
    for sample in SAMPLES:
        for number in range(MUTATIONS):
            file = sample.damaged[number % len(sample.damaged)]
            kind = sample.kinds[number // len(sample.damaged) % len(sample.kinds)]
            name = f"{sample.name}, {file}: {kind} {number}"
            found.append(Case(name, _attempt(sample, file, _mutation(kind, f"{seed} {name}"))))
        for file in sample.damaged[:1]:
            for label, text in SPECIALS.items():
                name = f"{sample.name}, {file}: {label}"
                found.append(Case(name, _attempt(sample, file, _instead(text))))
    return found


def _mutation(kind: str, seed: str) -> Damage:
    return lambda good: mutated(good, kind, random.Random(seed))


def _instead(text: bytes) -> Damage:
    return lambda good: text


def _attempt(sample: Sample, file: str, damage: Damage) -> Callable[[Path], None]:
    def attempt(scratch: Path) -> None:
        if sample.name not in _WRITTEN:
            _WRITTEN[sample.name] = Path(tempfile.mkdtemp(dir=scratch.parent))
            sample.write(_WRITTEN[sample.name])
        shutil.copytree(_WRITTEN[sample.name], scratch, dirs_exist_ok=True)
        tried(sample, scratch, file, damage)

    return attempt


def tried(sample: Sample, folder: Path, file: str, damage: Damage) -> int:
    """Damage a file of a sample that lies in a folder, import it, and return the exit code."""
    sample.spoil(folder, file, damage)
    with mock.patch("os.fsync"):  # power cuts are another attack
        told = fedgrain(*sample.arguments(folder)).judged()
    written = sorted(path.name for path in folder.glob("out/*"))
    if told.code == 2 and (written or list(folder.glob(".out*"))):
        raise WrongError(f"refused, but it wrote {', '.join(written)}")
    if told.code == 2 and str(folder) not in told.err:
        raise WrongError(f"names no file: {told.err}")
    if told.code == 0:
        _read_again(folder / "out")
    return told.code


def _read_again(folder: Path) -> None:
    """Read what was written, as a run would; it must be without a mistake."""
    from fedgrain.folders.folder import read_rows, read_tree

    tree = read_tree(folder, None)
    if (folder / "images.csv").exists():
        _, mistakes, _ = read_rows(folder, None, tree)
        if mistakes.groups or mistakes.notes:
            raise WrongError(f"wrote mistakes: {list(mistakes.groups)[:3]}")
