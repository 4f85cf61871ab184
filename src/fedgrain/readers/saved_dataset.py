"""A Hugging Face data set saved to disk (``save_to_disk``); needs the extra ``datasets``."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
from fedgrain.importers.bounded import a_list, a_text, an_object, json_of
from fedgrain.importers.contract import Reading, ReadOptions, split_in
from fedgrain.readers.metadata_rows import DescribedImage, add_described
from fedgrain.text import one_line

_ENDINGS = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "BMP": ".bmp", "TIFF": ".tif",
            "GIF": ".gif"}  # fmt: skip


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read data sets; images inside them are written to the new folder."""
    try:
        import datasets
    except ImportError:
        raise DataError(
            "a saved data set needs the package datasets: pip install 'fedgrain[datasets]'"
        ) from None
    images: list[DescribedImage] = []
    names: dict[str, None] = {}
    for number, source in enumerate(sources):
        for part, place in _parts(source).items():
            _check_files(place)
            folder = f"{number}/{part}" if len(sources) > 1 else part
            try:
                table = datasets.load_from_disk(str(place)).with_format(None)
                images += _described(table, part, folder, source, options, names)
            except (DataError, MemoryError):
                raise
            except Exception as error:  # pyarrow and datasets raise whatever damaged files cause
                raise DataError(f"{place}: not a data set that we read: {_shown(error)}") from None
    return add_described(images, list(names), options, str(sources[0]))


def _parts(source: Path) -> dict[str, Path]:
    """Return the folder of every part; a data set without parts is the only one, without a name."""
    if not source.is_dir():
        raise DataError(f"{source}: a file where the folder of a saved data set is wanted")
    listed = source / "dataset_dict.json"
    if not listed.exists():
        return {"": source}
    record = an_object(json_of(listed), str(listed))
    parts = {}
    for number, name in enumerate(a_list(record, "splits", str(listed)), start=1):
        if not _is_plain(name) or not (source / name).is_dir():
            raise DataError(f"{listed}, split {number}: {name!r} is not a folder beside it")
        parts[name] = source / name
    return parts


def _check_files(place: Path) -> None:
    """Look at every file of a data set first: the package datasets does not say which one is bad.

    Tables are looked at whole, as Arrow asks of those that come from others.
    """
    state, about = place / "state.json", place / "dataset_info.json"
    if not state.exists() or not about.exists():
        raise DataError(f"{place}: no {state.name} or no {about.name}; save it with save_to_disk")
    an_object(json_of(about), str(about))
    record = an_object(json_of(state), str(state))
    for number, entry in enumerate(a_list(record, "_data_files", str(state)), start=1):
        where = f"{state}, file {number}"
        name = a_text(an_object(entry, where), "filename", where, needed=True)
        if not _is_plain(name) or not (place / name).is_file():
            raise DataError(f"{where}: {name!r} is not a file beside it")
        _check_table(place / name)


def _check_table(path: Path) -> None:
    import pyarrow

    number = 1
    try:
        with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as batches:
            for batch in batches:
                batch.validate(full=True)
                number += 1
    except MemoryError:
        raise
    except Exception as error:  # whatever damaged files cause
        raise DataError(
            f"{path}, batch {number}: not a table of Arrow that we read: {_shown(error)}"
        ) from None


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"


def _described(
    table: Any, part: str, folder: str, source: Path, options: ReadOptions, names: dict[str, None]
) -> list[DescribedImage]:
    """Return the images of one part, with their other columns as text."""
    import datasets

    column = options.columns.get("image") or next(
        (name for name, kind in table.features.items() if isinstance(kind, datasets.Image)), None
    )
    if (
        column is None
        or column not in table.features
        or not isinstance(table.features[column], datasets.Image)
    ):
        raise DataError(f"{source}: no column of images among {', '.join(table.features)}")
    table = table.cast_column(column, datasets.Image(decode=False))
    texts = {name: kind for name, kind in table.features.items() if name != column}
    names.update(dict.fromkeys(texts))
    found = []
    for number, row in enumerate(table):
        where = f"{source}{f', {part}' if part else ''}, row {number + 1}"
        fields = {name: _text(row[name], kind, where) for name, kind in texts.items()}
        image = row[column] or {}
        content, path = image.get("bytes"), image.get("path") or ""
        if content:
            name = f"{folder}/{number:06}{_ending(content, where)}".lstrip("/")
            save = _saver(table, number, column)
            found.append(DescribedImage(name, fields, where, source, split_in(part), save))
        else:
            found.append(DescribedImage(path, fields, where, source, split_in(part)))
    return found


def _saver(table: Any, number: int, column: str) -> Callable[[Path], None]:
    def save(path: Path) -> None:
        path.write_bytes(table[number][column]["bytes"])  # not kept: there may be very many

    return save


def _ending(content: bytes, where: str) -> str:
    """Return the ending of an image's file by its content; only formats that we read."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=list(_ENDINGS)) as image:
            return _ENDINGS[str(image.format)]
    except Exception:  # decoders raise anything on damaged files
        raise DataError(f"{where}: its image is not one that fedgrain reads") from None


def _text(value: Any, kind: Any, where: str) -> str:
    """Return a field as text; the number of a class label becomes its name."""
    import datasets

    if isinstance(kind, datasets.ClassLabel) and isinstance(value, int):
        if value >= len(kind.names):
            raise DataError(f"{where}: class label {value}, and there are {len(kind.names)} names")
        return str(kind.int2str(value)) if value >= 0 else ""  # -1 means that there is none
    return str(value) if isinstance(value, str | int | float) else ""
