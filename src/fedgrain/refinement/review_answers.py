"""The answers of a review: a log to which every answer is added at once, and what they amount to.

The log is only ever appended to, and each line is on disk before the page hears that it is saved.
Undoing an answer is a line too.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedgrain.errors import DataError, FedgrainError
from fedgrain.files import append_line, read_text
from fedgrain.parsing import parse_json

ACCEPT, PICK, UNSURE, UNDO = "accept", "pick", "unsure", "undo"
ANSWERS = (ACCEPT, PICK, UNSURE)


@dataclass(frozen=True)
class Answer:
    """What somebody said about one image."""

    path: str  # as in the manifest
    answer: str
    label: str  # empty for unsure
    annotator: str


class AnswerLog:
    """All answers that hold, in their order, and the file they are in."""

    def __init__(self, file: Path) -> None:
        self.file, self.answers = file, list[Answer]()
        self.latest: dict[str, Answer] = {}  # by path
        if file.exists():
            self._read()

    def add(self, answer: Answer) -> None:
        """Write an answer, then count it."""
        self._write(answer)
        self._take(answer)

    def undo(self, annotator: str) -> Answer | None:
        """Take back the last answer and return it; None if there is none."""
        if not self.answers:
            return None
        last = self.answers[-1]
        self._write(Answer(last.path, UNDO, "", annotator))
        return self._pop()

    def _write(self, answer: Answer) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        append_line(self.file, json.dumps({**vars(answer), "time": now}, ensure_ascii=False))

    def _take(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.latest[answer.path] = answer

    def _pop(self) -> Answer:
        last = self.answers.pop()
        before = [one for one in self.answers if one.path == last.path]
        if before:
            self.latest[last.path] = before[-1]
        else:
            del self.latest[last.path]
        return last

    def _read(self) -> None:
        broken = 0
        for number, line in enumerate(read_text(self.file).splitlines(), 1):
            try:
                content = parse_json(line, f"{self.file}, line {number}", DataError)
                answer = Answer(*(content[name] for name in Answer.__dataclass_fields__))
                if not all(isinstance(value, str) for value in vars(answer).values()):
                    raise DataError("not a text")
            except (FedgrainError, KeyError, TypeError):
                broken += bool(line)
                continue
            if answer.answer == UNDO and self.answers:
                self._pop()
            elif answer.answer in ANSWERS:
                self._take(answer)
        if broken:
            warnings.warn(f"{self.file}: {broken} lines are damaged and left out", stacklevel=3)
