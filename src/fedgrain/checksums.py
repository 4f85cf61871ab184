"""Files that contain their own SHA-256: one flipped bit anywhere is found.

The checksum is computed with 64 zeros in its place. So a file can be checked without other files,
also after it is copied. A JSON object of ours has the checksum as its first entry and a marker as
its last: damage to either does not make it look like a file of an older version without checksums.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedgrain.errors import FedgrainError
from fedgrain.files import decoded, read_bytes, written_whole
from fedgrain.parsing import parse_json

BLANK = "0" * 64
_FIRST, _LAST = "sha256", "has_checksum"
_LOG = logging.getLogger("fedgrain")


def sealed(raw: bytes) -> bytes:
    """Replace the first 64 zeros in a file's content by its checksum."""
    return raw.replace(BLANK.encode(), digest([raw]).encode(), 1)


def is_intact(raw: bytes, checksum: Any) -> bool:
    """Return whether a file's content matches its checksum."""
    if not isinstance(checksum, str) or len(checksum) != len(BLANK):
        return False
    before = raw.replace(checksum.encode("utf-8", "replace"), BLANK.encode(), 1)
    return digest([before]) == checksum


def digest(parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of bytes, in hex."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def damaged(path: Path, advice: str, error: type[FedgrainError]) -> FedgrainError:
    """Return the error for a file that does not match its checksum."""
    return error(f"{path}: damaged: its content does not match its checksum; {advice}")


def write_checked(path: Path, content: dict[str, Any], indent: int | None = 2) -> None:
    """Write an object as JSON with its checksum, whole or not at all."""
    whole = {_FIRST: BLANK, **content, _LAST: True}
    text = json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"
    with written_whole(path) as aside:
        aside.write_bytes(sealed(text.encode()))


def read_checked(
    path: Path, advice: str, error: type[FedgrainError]
) -> tuple[dict[str, Any], bool]:
    """Return an object, and whether it has a checksum; files of older versions have none."""
    raw = read_bytes(path)
    content = parse_json(decoded(raw, path), path, error, advice)
    if not isinstance(content, dict):
        raise error(f"{path}: not a JSON object; {advice}")
    marks = (content.pop(_FIRST, None), content.pop(_LAST, None))
    if marks == (None, None):
        return content, False
    if marks[1] is not True or not is_intact(raw, marks[0]):
        raise damaged(path, advice, error)
    return content, True


_warned_unchecked = False


def warn_unchecked(path: Path) -> None:
    """Warn, once per process, that files of an older version are read unchecked."""
    global _warned_unchecked
    if not _warned_unchecked:
        _warned_unchecked = True
        _LOG.warning("fedgrain: %s is of an older version and has no checksum; not checked", path)
