"""Write the data folder of an import: taxonomy.csv, images.csv, import.txt, perhaps images."""

from __future__ import annotations

import csv
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedgrain.errors import DataError
from fedgrain.files import write_text
from fedgrain.folders.folder import MANIFEST, TREE
from fedgrain.images.archives import move_into_place
from fedgrain.importers.account import Account, Row
from fedgrain.taxonomy.formats import write_csv

ACCOUNT = "import.txt"
IMAGES = "images"


def write_folder(out: Path, account: Account, ranks: Mapping[str, str], *, copy: bool) -> None:
    """Write everything aside, then move it into place; the list of images comes last."""
    if account.taxonomy is None:
        raise DataError("an account without a taxonomy cannot be written")
    copied = [row for row in account.rows if copy or row.image.save is not None]
    if copied and (out / IMAGES).exists():
        raise DataError(f"{out / IMAGES} is already there; move it away, or choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.parent / f".{out.name}.{secrets.token_hex(4)}.part"
    aside.mkdir()
    try:
        paths = _copied(aside, copied)
        write_csv(account.taxonomy, aside / TREE, root_row=True, ranks=ranks)
        write_text(aside / ACCOUNT, "\n".join(account.lines()) + "\n")
        if account.rows:
            write_text(aside / MANIFEST, _manifest(account, paths, out))
        _move(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _move(aside: Path, out: Path) -> None:
    if not out.exists():
        move_into_place(aside, out)
        return
    for name in (IMAGES, TREE, ACCOUNT, MANIFEST):
        if (aside / name).exists():
            (aside / name).replace(out / name)
        elif name == MANIFEST:
            (out / name).unlink(missing_ok=True)  # of an earlier import, of another tree


def _copied(aside: Path, rows: Iterable[Row]) -> dict[Path, str]:
    """Copy images, keeping their folders; return where each one is in the new folder."""
    from tqdm import tqdm

    places: dict[Path, str] = {}
    taken: set[str] = set()  # used only for membership tests
    listed = list(rows)
    for row in tqdm(listed, desc="images", unit="image", disable=None if listed else True):
        inner = Path(os.path.relpath(row.file, row.root)) if row.image.save is None else row.file
        name, count = str(Path(IMAGES) / inner), 1
        while name.casefold() in taken:
            count += 1
            name = str(Path(IMAGES) / inner.with_stem(f"{inner.stem}-{count}"))
        taken.add(name.casefold())
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        if row.image.save is None:
            shutil.copyfile(row.file, aside / name)
        else:
            row.image.save(aside / name)
        places[row.file] = name
    return places


def _manifest(account: Account, copied: Mapping[Path, str], out: Path) -> str:
    """Return images.csv; an image that was not copied has its own path, relative if in ``out``."""
    fields = {"client": "site", "annotator": "annotator", "split": "split"}
    used = [
        column
        for column, what in fields.items()
        if any(getattr(row.image, what) for row in account.rows)
    ]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "label", *used])
    for row in account.rows:
        path = copied.get(row.file) or _named(row.file, out)
        label = account.taxonomy.ids[row.node] if account.taxonomy else ""
        writer.writerow([path, label, *(getattr(row.image, fields[column]) for column in used)])
    return text.getvalue()


def _named(file: Path, out: Path) -> str:
    whole, folder = os.path.abspath(file), os.path.abspath(out)  # noqa: PTH100 - links stay
    inside = whole.startswith(folder + os.sep)
    return os.path.relpath(whole, folder) if inside else whole
