"""A Hugging Face data set saved to disk (``save_to_disk``); needs the extra ``datasets``."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedgrain.errors import DataError
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
        try:
            loaded = datasets.load_from_disk(str(source))
            parts = loaded if isinstance(loaded, datasets.DatasetDict) else {"": loaded}
            for part, table in parts.items():
                folder = f"{number}/{part}" if len(sources) > 1 else str(part)
                images += _described(table, str(part), folder, source, options, names)
        except (DataError, OSError, MemoryError):
            raise
        except Exception as error:  # pyarrow and datasets raise whatever damaged files cause
            raise DataError(
                f"{source}: not a data set saved to disk that we read: {type(error).__name__}: "
                f"{one_line(error)}"
            ) from None
    return add_described(images, list(names), options, str(sources[0]))


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
        fields = {name: _text(row[name], kind) for name, kind in texts.items()}
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


def _text(value: Any, kind: Any) -> str:
    """Return a field as text; the number of a class label becomes its name."""
    import datasets

    if isinstance(kind, datasets.ClassLabel) and isinstance(value, int) and value >= 0:
        return str(kind.int2str(value))
    return str(value) if isinstance(value, str | int | float) else ""
