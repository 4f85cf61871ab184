"""From a source in any format to a folder that fedgrain trains on, written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedgrain.catalogue import IMPORTERS
from fedgrain.errors import DataError
from fedgrain.folders.folder import MANIFEST, TREE
from fedgrain.importers.account import Account, Row
from fedgrain.importers.contract import Reader, ReadImage, Reading, ReadOptions
from fedgrain.importers.image_files import ImageFiles
from fedgrain.importers.names_file import Names, read_names, write_unknown
from fedgrain.importers.output import ACCOUNT, write_folder
from fedgrain.importers.resolve import Resolved, resolve
from fedgrain.parsing import refuse_unknown
from fedgrain.plugins import call_own, load_callable
from fedgrain.taxonomy.formats import read_csv
from fedgrain.taxonomy.tree import Taxonomy


@dataclass(frozen=True)
class ImportOptions:
    """How to import: what the reader should know, and what is done with what it finds."""

    read: ReadOptions = field(default_factory=ReadOptions)
    taxonomy: Taxonomy | str | Path | None = None  # labels mean its nodes; else the source's own
    names: str | Path | None = None  # a site's own words
    root: str = ""  # name of a class above all others
    copy: bool = False  # images into the new folder, instead of their paths
    allow_links: bool = False
    skip_unknown: bool = False  # leave images out whose word has no node
    replace: bool = False  # write over an earlier import


def import_data(
    form: str, sources: Sequence[str | Path], out: str | Path, options: ImportOptions | None = None
) -> Account:
    """Read sources of a format (a name, or your own ``module:callable``) and write a data folder.

    The folder gets ``taxonomy.csv``, ``images.csv`` and an account, ``import.txt``. If words have
    no node, only ``words.csv`` is written, to be filled in and given as ``names``; the account
    says so in ``words_file``.
    """
    chosen = options or ImportOptions()
    target = Path(out)
    _refuse_existing(target, chosen)
    reading = _read(form, [Path(source) for source in sources], chosen.read)
    if not len(reading.classes) and not reading.images:
        raise DataError(f"{sources[0]}: found neither classes nor images; see docs/import.md")
    names = read_names(Path(chosen.names)) if chosen.names else Names()
    given = chosen.taxonomy
    tree = given if isinstance(given, Taxonomy | None) else read_csv(given)
    resolved = resolve(reading, names, tree, chosen.root)
    account = Account(form, tuple(str(source) for source in sources), reading)
    if resolved.unknown and not chosen.skip_unknown:
        account.unknown = resolved.unknown
        account.words_file = target / "words.csv"
        write_unknown(account.words_file, names, resolved.unknown)
        return account
    rows = _rows(reading, resolved, ImageFiles(chosen.read.images, allow_links=chosen.allow_links))
    account.taxonomy, account.rows = resolved.taxonomy, _one_per_file(reading, resolved, rows)
    if reading.images and not account.rows:
        raise DataError(
            f"{sources[0]}: no image is left of {len(reading.images):,}: {account.why_skipped()}"
        )
    write_folder(target, account, resolved.ranks, copy=chosen.copy)
    return account


def _refuse_existing(out: Path, options: ImportOptions) -> None:
    if out.exists() and not out.is_dir():
        raise DataError(f"{out}: a file, but --out names a folder")
    there = [name for name in (TREE, MANIFEST, ACCOUNT) if (out / name).exists()]
    if there and not options.replace:
        raise DataError(f"{out / there[0]} is already there; --replace writes over it")


def _read(form: str, sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Call the reader of a format."""
    for source in sources:
        if not source.exists():
            raise DataError(f"{source}: there is no such file or folder")
    if ":" in form:
        called_with = "the sources and fedgrain.importers.ReadOptions"
        reading = call_own(form, "format", DataError, sources, options, called_with=called_with)
        if not isinstance(reading, Reading):
            raise DataError(f"format {form!r}: it must return a fedgrain.importers.Reading")
        return reading
    refuse_unknown([form], list(IMPORTERS), "a format", DataError)
    read: Reader = load_callable(IMPORTERS[form].home, "format", DataError)
    return read(sources, options)


def _rows(reading: Reading, resolved: Resolved, files: ImageFiles) -> list[Row]:
    """Return the images that are there and have a node."""
    rows: list[Row] = []
    for image in reading.images:
        node = resolved.node_of.get(image.label)
        if node is None:
            reading.skip(resolved.left_out[image.label], image.where)
            continue
        found = (Path(image.path), Path()) if image.save else files.find(image)
        if isinstance(found, str):
            reading.skip(found, image.where)
        else:
            rows.append(Row(image, node, *found))
    return rows


def _one_per_file(reading: Reading, resolved: Resolved, rows: list[Row]) -> list[Row]:
    """Keep one row of each file: its deepest label, if all its labels lie on one path."""
    by_file: dict[Path, list[Row]] = {}
    for row in rows:
        by_file.setdefault(row.file, []).append(row)
    tree, kept = resolved.taxonomy, []
    for same in by_file.values():
        deepest = max(same, key=lambda row: int(tree.depth[row.node]))
        if all(tree.is_ancestor(row.node, deepest.node) for row in same):
            sites = {row.image.site for row in same if row.image.site}
            split = next((row.image.split for row in same if row.image.split), "")
            site = deepest.image.site or (sites.pop() if len(sites) == 1 else "")
            kept.append(replace(deepest, image=_with(deepest.image, site, split)))
        else:
            reading.skip("its file has labels that cannot all hold", same[0].image.where, len(same))
    merged = sum(map(len, by_file.values())) - len(by_file)
    if merged:
        reading.note(f"{merged:,} records repeat a file; each file has one row, its deepest label")
    return kept


def _with(image: ReadImage, site: str, split: str) -> ReadImage:
    return replace(image, site=site, split=image.split or split)
