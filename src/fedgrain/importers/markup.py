"""Read XML of unknown origin: no document types, so no entities that grow or read files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from fedgrain.errors import DataError

_MAX_BYTES = 64 * 2**20
_MAX_DEPTH = 500


def refuse_entities(content: bytes, where: object) -> None:
    """Refuse XML that declares a document type, is nested too deep, or is not XML."""
    if len(content) > _MAX_BYTES:
        raise DataError(f"{where}: XML of more than {_MAX_BYTES >> 20} MB is not read")
    parser = expat.ParserCreate()
    depth = 0

    def doctype(*_: object) -> None:
        raise DataError(
            f"{where}, line {parser.CurrentLineNumber}: it declares a document type (DOCTYPE), "
            "which could hide entities; remove it"
        )

    def start(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            raise DataError(f"{where}, line {parser.CurrentLineNumber}: nested too deep")

    def end(*_: object) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = doctype
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise DataError(f"{where}, line {error.lineno}: not XML: {error}") from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not know
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where}: not XML we read: {error}") from None


def xml_of(path: Path) -> ElementTree.Element:
    """Return the root element of an XML file."""
    content = path.read_bytes()
    refuse_entities(content, path)
    try:
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise DataError(f"{path}: not XML we read: {error}") from None
