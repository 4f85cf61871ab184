"""Read untrusted JSON, TOML and CSV; every problem is reported in one sentence."""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fedgrain.errors import FedgrainError

MAX_DEPTH = 100  # levels of lists and objects inside one another
_LARGEST = 2**63 - 1  # what numpy and torch can hold as well
_SHOWN = 100  # characters of a key in a message
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(
    text: str, where: object, error: type[FedgrainError] = FedgrainError, advice: str = ""
) -> Any:
    """Return the content of a JSON text, or raise ``error`` with the place and the advice."""
    try:
        content = json.loads(text, parse_int=_whole_number, object_pairs_hook=_every_key_once)
    except json.JSONDecodeError as found:
        message = f"{where}, line {found.lineno}: not JSON: {found.msg}"
    except RecursionError:
        message = f"{where}: not JSON we read: nested more than {MAX_DEPTH} levels deep"
    except ValueError as found:
        message = f"{where}: {found}"
    else:
        problem = _problem(content) or (_lone_surrogate(content) if _SURROGATE.search(text) else "")
        if not problem:
            return content
        message = f"{where}: {problem}"
    raise error(_with(message, advice))


def parse_toml(
    text: str, where: object, error: type[FedgrainError] = FedgrainError, advice: str = ""
) -> dict[str, Any]:
    """Return the content of a TOML text, or raise ``error`` with the place and the advice."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as found:
        message = f"{where}: not TOML: {found}"
    except RecursionError:
        message = f"{where}: not TOML we read: nested more than {MAX_DEPTH} levels deep"
    except ValueError as found:  # a number of thousands of digits, a date that does not exist
        message = f"{where}: not TOML we read: {str(found).partition(';')[0]}"
    else:
        if not (problem := _problem(content)):
            return content
        message = f"{where}: {problem}"
    raise error(_with(message, advice))


def csv_rows(
    text: str,
    where: object,
    error: type[FedgrainError],
    check_header: Callable[[list[str]], None],
    wrong_length: Callable[[str, str, list[str]], None] | None = None,
    delimiter: str = ",",
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place (file and line) and the fields by column of each row that is not empty.

    ``check_header`` refuses a header before any row is read, or corrects it. ``wrong_length`` is
    called with the place, what is wrong and the fields of a row of another length than the header,
    which is otherwise an error. Spaces around fields do not count. With tabs as
    ``delimiter``, quotes are signs like others.
    """
    lines = io.StringIO(text, newline="")
    if delimiter == "\t":
        reader = csv.reader(lines, strict=True, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines, strict=True, delimiter=delimiter)
    try:
        header = [field.strip() for field in next(reader, [])]
        check_header(header)
        for record in reader:
            fields = [field.strip() for field in record]
            place = f"{where}, line {reader.line_num}"
            if not any(fields):
                continue
            if len(fields) != len(header):
                message = f"{len(fields)} fields where the header has {len(header)}"
                if wrong_length is None:
                    raise error(f"{place}: {message}")
                wrong_length(place, message, fields)
                continue
            yield place, dict(zip(header, fields, strict=True))
    except csv.Error as found:
        raise error(f"{where}, line {reader.line_num}: not a CSV file: {found}") from None


def refuse_unknown(
    given: Iterable[str], known: Sequence[str], what: str, error: type[FedgrainError]
) -> None:
    """Refuse a name that is not ``what``, such as "a setting", and suggest the nearest one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise error(f"{name!r} is not {what}{hint}")


def _with(message: str, advice: str) -> str:
    return f"{message}; {advice}" if advice else message


def _every_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a key that is there twice, Python would drop the first value."""
    content = dict(pairs)
    if len(content) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:_SHOWN]!r} is there twice in one object; keep one")
    return content


def _whole_number(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"a whole number of {len(digits)} digits; 19 are the most we read")
    return int(digits)


def _problem(content: Any) -> str:
    """Return the problem with parsed content; empty if there is none."""
    level, depth = [content], 0
    while level:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
                return f"a whole number of {value.bit_length()} bits; 63 are the most we read"
        level, depth = below, depth + 1
        if depth > MAX_DEPTH:
            return f"nested more than {MAX_DEPTH} levels deep"
    return ""


def _lone_surrogate(content: Any) -> str:
    write: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode
    try:
        write(content).encode()
    except UnicodeEncodeError:
        return "half a character (a lone surrogate such as \\ud800); write the whole character"
    return ""
