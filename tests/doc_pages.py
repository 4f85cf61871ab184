"""What a page of the docs tells its reader to type and to write, as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.S | re.M)
_PROGRAMS = ("fedgrain ", "pip ", "make ")


def commands(page: str) -> list[list[str]]:
    """Return the commands of a page's blocks as words, in order: `fedgrain`, `pip` and `make`."""
    text = (ROOT / page).read_text("utf-8")
    found = []
    for kind, block in _BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines() if kind in ("", "console") else []
        typed = [line.removeprefix("$ ") for line in lines]
        found += [shlex.split(line) for line in typed if line.startswith(_PROGRAMS)]
    return found


def command(page: str, *beginning: str) -> list[str]:
    """Return the only command of a page that begins so."""
    (found,) = [w for w in commands(page) if tuple(w[: len(beginning)]) == beginning]
    return found


def mentioned(page: str, beginning: str) -> list[str]:
    """Return a command that a page mentions in a sentence, in backticks."""
    text = (ROOT / page).read_text("utf-8")
    (found,) = set(re.findall(rf"`({re.escape(beginning)}[^`]*)`", text))
    return shlex.split(found)


def file_of(page: str, name: str) -> str:
    """Return the content that a page gives for a file."""
    text = (ROOT / page).read_text("utf-8")
    (found,) = re.findall(
        rf"^`{re.escape(name)}`.*?:\n\n```\w*\n(.*?)^```", text, flags=re.S | re.M
    )
    return found
