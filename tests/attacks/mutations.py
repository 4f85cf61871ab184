"""Damage to good files, decided by a seed, and texts that are hostile as they are."""

from __future__ import annotations

import json
import random
from typing import Any

TOKENS = [
    b"\x00", b"\xff\xfe", b"\r", b"\n\n", b'"', b"'", b",", b"=", b"[", b"{", b"\\ud800",
    b'"\\ud800"', "\ud800".encode(errors="surrogatepass"), b"NaN", b"-Infinity", b"1e999",
    b"-1", b"0", b"9" * 5000, b"0." + b"3" * 5000, b"[" * 3000, b'{"a":' * 3000,
    b"../../etc/passwd", b"os:_exit", b"\x1b[2J", "\u202e\u2028\u0085".encode(), b"true",
    b"null", b"x" * 100_000,
]  # fmt: skip
SPECIALS: dict[str, bytes] = {
    "nothing": b"",
    "a line end": b"\n",
    "zeros": bytes(100),
    "bytes that are not UTF-8": b"\xff" * 100,
    "UTF-16": "parent,child\na,b\n".encode("utf-16"),
    "brackets in brackets": b"[" * 100_000,
    "closed brackets": b"[" * 50_000 + b"]" * 50_000,
    "objects in objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "arrays of TOML": b"a = " + b"[" * 50_000 + b"]" * 50_000,
    "tables of TOML": b"a = " + b"{a = " * 20_000 + b"1" + b"}" * 20_000,
    "dotted keys": b".".join([b"a"] * 5_000) + b" = 1",
    "a number of 5,000 digits": b"9" * 5000,
    "that number in TOML": b"seed = " + b"9" * 5000,
    "that number in JSON": b'{"a": ' + b"9" * 5000 + b"}",
    "an exponent": b'{"a": 1e' + b"9" * 5000 + b"}",
    "half a character": b'{"\\ud800": "\\udfff"}',
    "half a character in TOML": b'dataset = "\\ud800"',
    "a line of 5 MB": b"x" * 5_000_000,
    "500,000 lines": b"\n" * 500_000,
    "a field of 5 MB": b'parent,child\n"' + b"y" * 5_000_000 + b'",b\n',
    "100,000 columns": b"," * 100_000,
    "an open quote": b'parent,child\n"a,b\n',
    "a chain": b"parent,child\n" + b"".join(b"n%d,n%d\n" % (n, n + 1) for n in range(8000)),
    "a circle": b"parent,child\na,b\nb,c\nc,a\n",
    "a star": b"parent,child\n" + b"".join(b"r,n%d\n" % n for n in range(20_000)),
    "escapes": b"parent,child\n\x1b[2Jr,\x07a\nr,b\n",
}
VALUES = ["null", "true", "-1", "0", "9" * 5000, "1e999", "NaN", '""', '"\\ud800"', "[]", "{}",
          "[" * 2000 + "]" * 2000, '"os:_exit"', '"../../x"', '"\\u0000"', "1.5", "[[[]]]",
          "[1, 2, 3]", '{"a": 1}', '"' + "y" * 100_000 + '"', "4294967296", "-0.0"]  # fmt: skip


def mutated(good: bytes, kind: str, rng: random.Random) -> bytes:
    """Return a good file with one to four damages of a kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        good = {"bytes": _bytes, "lines": _lines, "values": _values, "json": _tree}[kind](good, rng)
    return good


def _bytes(good: bytes, rng: random.Random) -> bytes:
    if not good:
        return rng.choice(TOKENS)
    start = rng.randrange(len(good))
    end = min(len(good), start + rng.choice((1, 1, 4, 50)))
    piece = rng.choice((
        b"", rng.choice(TOKENS), good[start:end] * 3, rng.randbytes(end - start),
        bytes([good[start] ^ 1 << rng.randrange(8)]) + good[start + 1 : end],
    ))  # fmt: skip
    whole = good[:start] + piece + good[end:]
    return whole[:start] if rng.random() < 0.1 else whole


def _lines(good: bytes, rng: random.Random) -> bytes:
    lines = good.split(b"\n")
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        del lines[one]
    elif what == 1:
        lines[one], lines[two] = lines[two], lines[one]
    elif what == 2:
        lines.insert(two, lines[one])
    else:
        lines[one] = lines[one] + lines[two]
    return b"\n".join(lines)


def _values(good: bytes, rng: random.Random) -> bytes:
    """Put a hostile value in the place of a field of CSV, or of a value of TOML."""
    lines = good.split(b"\n")
    number = rng.randrange(len(lines))
    mark = b" = " if b" = " in lines[number] else b","
    parts = lines[number].split(mark)
    where = len(parts) - 1 if mark == b" = " else rng.randrange(len(parts))
    parts[where] = rng.choice([*TOKENS, *(value.encode() for value in VALUES)])
    lines[number] = mark.join(parts)
    return b"\n".join(lines)


def _tree(good: bytes, rng: random.Random) -> bytes:
    """Put a hostile value in the place of a node of a JSON tree, or remove one."""
    try:
        content = json.loads(good)
    except (ValueError, RecursionError):
        return good
    places = list(_places(content))
    if not places:
        return rng.choice(VALUES).encode()
    holder, key = rng.choice(places)
    if rng.random() < 0.2:
        del holder[key]
        return json.dumps(content).encode()
    holder[key] = "HOSTILE"
    return json.dumps(content).replace('"HOSTILE"', rng.choice(VALUES)).encode()


def _places(value: Any) -> Any:
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
