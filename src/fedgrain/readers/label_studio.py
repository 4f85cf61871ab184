"""Label Studio: the config of a Taxonomy tag (XML), and annotations exported as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

from fedgrain.errors import DataError
from fedgrain.importers.bounded import a_list, an_object, json_of
from fedgrain.importers.class_tree import TOP
from fedgrain.importers.contract import Reading, ReadOptions
from fedgrain.importers.image_files import is_address
from fedgrain.importers.markup import xml_of

_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts before the name of a file
_TAGS = ("Taxonomy", "Choices")


def read(sources: Sequence[Path], options: ReadOptions) -> Reading:
    """Read configs (``.xml``) and exports (``.json``)."""
    reading = Reading()
    exports: list[tuple[Path, list[Any]]] = []
    aliases: dict[tuple[int, str], int] = {}
    for source in sources:
        if source.suffix.lower() == ".xml":
            _read_config(source, reading, aliases)
        else:
            content = json_of(source)
            if not isinstance(content, list):
                raise DataError(f"{source}: an export is a list of tasks; export it as JSON")
            exports.append((source, content))
    predicted = not any(
        isinstance(task, dict) and task.get("annotations") for _, tasks in exports for task in tasks
    )
    if predicted and exports:
        reading.note("no task has annotations, so predictions are read as labels")
    for source, tasks in exports:
        for number, task in enumerate(tasks, start=1):
            where = f"{source}, task {number}"
            _read_task(an_object(task, where), where, source, predicted, reading, aliases)
    return reading


def _read_config(source: Path, reading: Reading, aliases: dict[tuple[int, str], int]) -> None:
    """Add the choices of a config; an alias stands for its choice in exports."""
    root = xml_of(source)
    tags = [tag for name in _TAGS for tag in root.iter(name)]
    if not tags:
        raise DataError(f"{source}: the config has neither a Taxonomy nor a Choices tag")

    def add(tag: ElementTree.Element, above: int) -> None:
        for number, choice in enumerate(tag.findall("Choice"), start=1):
            value = (choice.get("value") or "").strip()
            where = f"{source}, choice {number} of {tag.get('value') or tag.tag}"
            if not value:
                raise DataError(f"{where}: it has no value")
            node = reading.classes.path([value], where, under=above)
            if alias := (choice.get("alias") or "").strip():
                aliases[above, alias] = node
                reading.classes.synonyms(node, alias)
            add(choice, node)

    for tag in tags:
        add(tag, TOP)


def _read_task(
    task: dict[str, Any],
    where: str,
    source: Path,
    predicted: bool,
    reading: Reading,
    aliases: dict[tuple[int, str], int],
) -> None:
    path, others = _image_of(an_object(task.get("data"), f"{where}, data"), where)
    kind = "predictions" if predicted else "annotations"
    given = a_list(task, kind, where, needed=False)
    if not given:
        reading.skip("the task has no annotation", where)
    for number, entry in enumerate(given, start=1):
        place = f"{where}, {kind.removesuffix('s')} {number}"
        annotation = an_object(entry, place)
        if annotation.get("was_cancelled"):
            reading.skip("the annotation was cancelled", place)
            continue
        annotator = _annotator(annotation, predicted)
        steps = list(_choices(annotation, place))
        if not steps:
            reading.skip("the annotation has no choice of a Taxonomy or Choices tag", place)
        for choice in steps:
            node = _node(choice, place, reading, aliases)
            reading.image(path, node, place, source.parent, annotator=annotator, others=others)


def _choices(annotation: dict[str, Any], where: str) -> Iterator[list[str]]:
    """Yield the path of every choice."""
    for number, entry in enumerate(a_list(annotation, "result", where, needed=False), start=1):
        place = f"{where}, result {number}"
        result = an_object(entry, place)
        value = result.get("value")
        if result.get("type") == "taxonomy":
            chosen = a_list(an_object(value, place), "taxonomy", place)
        elif result.get("type") == "choices":
            chosen = [[choice] for choice in a_list(an_object(value, place), "choices", place)]
        else:
            continue
        for path in chosen:
            if not isinstance(path, list) or not path:
                raise DataError(f"{place}: a choice must be a list of texts, from the top down")
            if not all(isinstance(step, str) and step.strip() for step in path):
                raise DataError(f"{place}: a step of the choice {path!r} is not a text")
            yield path


def _node(
    path: Sequence[str], where: str, reading: Reading, aliases: dict[tuple[int, str], int]
) -> int:
    node = TOP
    for step in path:
        known = aliases.get((node, step.strip()))
        node = known if known is not None else reading.classes.path([step], where, under=node)
    return node


def _annotator(annotation: dict[str, Any], predicted: bool) -> str:
    who = annotation.get("model_version" if predicted else "completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("username") or who.get("id")
    return str(who) if isinstance(who, int | str) and not isinstance(who, bool) else ""


def _image_of(data: dict[str, Any], where: str) -> tuple[str, tuple[str, ...]]:
    """Return the path of a task's image, and where else it may lie."""
    texts = [value for value in data.values() if isinstance(value, str) and value.strip()]
    image = data.get("image")
    text = image if isinstance(image, str) and image.strip() else (texts[0] if texts else "")
    if not text:
        raise DataError(f"{where}, data: it names no image")
    if "/local-files/" in text:
        try:
            found = parse_qs(urlsplit(text).query).get("d", [""])[0]
        except ValueError:
            found = ""
        return found or text, ()
    if is_address(text):
        return text, ()
    path = text.removeprefix("/data/")
    name = path.rpartition("/")[2]
    return path, (name, _UPLOADED.sub("", name, count=1))
