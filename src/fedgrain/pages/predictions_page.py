"""A page of thumbnails: what a model predicted, class by class, to look through.

It opens from disk without a network, and runs no script.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from fedgrain.models.predict_files import PredictedFile
from fedgrain.pages.templating import environment, template_text
from fedgrain.text import encodable, one_line
from fedgrain.version import __version__

_LONGEST_PATH = 300  # characters of a path that is shown


@dataclass(frozen=True)
class Picture:
    """One image of a class."""

    image: str
    probability: float
    steps: str  # the way down to the class, with probabilities
    source: str  # a data: URL; empty where the page has no room for it


@dataclass(frozen=True)
class PredictedClass:
    """The images that were given one class, the least certain first."""

    name: str
    path: str
    pictures: tuple[Picture, ...]

    @property
    def mean(self) -> float:
        """The mean probability of the class."""
        return sum(picture.probability for picture in self.pictures) / len(self.pictures)


def page_of_predictions(rows: Iterable[PredictedFile], run: str | Path) -> Iterator[str]:
    """Yield the page of a run's predictions, in one piece."""
    listed = list(rows)
    classes = _classes(listed)
    failed = [row for row in listed if row.prediction is None]
    shown = sum(bool(picture.source) for found in classes for picture in found.pictures)
    read = len(listed) - len(failed)
    yield encodable(
        environment()
        .get_template("predictions.html.j2")
        .render(
            title=one_line(Path(run).resolve().name),
            sentence=_sentence(len(listed), len(failed), len(classes)),
            note=f"Pictures of the first {shown:,} of {read:,} images." if shown < read else "",
            classes=classes,
            failed=[(one_line(row.image, _LONGEST_PATH), one_line(row.problem)) for row in failed],
            css=Markup(template_text("report.css")),  # our own file, not a user's text
            version=__version__,
        )
    )


def _sentence(images: int, failed: int, classes: int) -> str:
    read = images - failed
    noun, kinds = ("image", "images")[read != 1], ("class", "classes")[classes != 1]
    told = f"{read:,} {noun} in {classes:,} {kinds}, the least certain of each first."
    return told + (f" {failed:,} could not be read." if failed else "")


def _classes(rows: Iterable[PredictedFile]) -> list[PredictedClass]:
    """Group the images by predicted node, in the order of their paths through the taxonomy."""
    groups: dict[tuple[str, ...], list[PredictedFile]] = {}
    for row in rows:
        if row.prediction is not None:
            groups.setdefault(row.prediction.ids, []).append(row)
    made = []
    for members in groups.values():
        pictures = sorted(map(_picture, members), key=lambda picture: picture.probability)
        first = members[0].prediction
        names = [one_line(name) for name in (first.names if first else ())]
        made.append(PredictedClass(names[-1], " › ".join(names[1:-1]), tuple(pictures)))
    return sorted(made, key=lambda found: (found.path, found.name))


def _picture(row: PredictedFile) -> Picture:
    found = row.prediction
    assert found is not None  # only those that were read come here
    levels = zip(found.names[1:], found.probabilities[1:], strict=True)
    steps = " › ".join(f"{one_line(name)} {chance:.2f}" for name, chance in levels)
    encoded = base64.b64encode(row.thumbnail).decode()
    source = f"data:image/jpeg;base64,{encoded}" if encoded else ""
    return Picture(one_line(row.image, _LONGEST_PATH), found.probabilities[-1], steps, source)
