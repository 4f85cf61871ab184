"""What a model found about labellers, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedgrain.text import counted, one_line

if TYPE_CHECKING:
    from fedgrain.models.label_check import Doubt, LabellerFinding
    from fedgrain.taxonomy import Taxonomy

_CLASSES = 8  # known classes that are named
_DOUBTS = 10  # doubtful labels that are listed
_SELDOM = 0.02  # an early stop this rare is not worth a word


@dataclass(frozen=True)
class FoundLabellers:
    """The findings about all labellers, with the tree they are about."""

    findings: Sequence[LabellerFinding]
    taxonomy: Taxonomy

    def lines(self, paths: Sequence[str] | None) -> Iterator[str]:
        """Yield a few lines about each labeller; ``paths`` are the files of the images."""
        yield "labellers, as the model sees them"
        for found in self.findings:
            yield f"  {one_line(found.name)}: {counted(found.labels, 'label')}"
            yield f"    seems to know {self._known(found)}"
            yield f"    {self._early(found)}"
            wrong = len(found.doubts)
            yield f"    labels that look wrong: {wrong} of {found.labels}"
            for doubt in found.doubts[:_DOUBTS]:
                yield f"      {self._doubt(doubt, paths)}"
            if wrong > _DOUBTS:
                yield f"      and {wrong - _DOUBTS} more; --json lists them all"

    def as_json(self, paths: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return the same as JSON."""
        ids = self.taxonomy.ids
        return [
            {
                "name": found.name,
                "labels": found.labels,
                "in_full": found.in_full,
                "known_classes": [ids[node] for node in found.known],
                "stops_early": {str(depth): share for depth, share in found.early.items()},
                "look_wrong": [
                    {
                        "image": _image(doubt, paths),
                        "label": ids[doubt.label],
                        "probability": doubt.probability,
                        "seems": ids[doubt.seems],
                    }
                    for doubt in found.doubts
                ],
            }
            for found in self.findings
        ]

    def _known(self, found: LabellerFinding) -> str:
        names = [one_line(self.taxonomy.names[node]) for node in found.known[:_CLASSES]]
        text = f"{len(found.known)} of {len(self.taxonomy.leaves)} classes"
        more = ", ..." if len(found.known) > _CLASSES else ""
        return f"{text}: {', '.join(names)}{more}" if names else text

    def _early(self, found: LabellerFinding) -> str:
        often = {depth: share for depth, share in found.early.items() if share >= _SELDOM}
        if not often:
            return "rarely stops early"
        told = ", ".join(f"{share:.0%} at depth {depth}" for depth, share in often.items())
        return f"stops early, though it seems to know better: {told}"

    def _doubt(self, doubt: Doubt, paths: Sequence[str] | None) -> str:
        names = self.taxonomy.names
        return (
            f"{one_line(str(_image(doubt, paths)), 80)}: {one_line(names[doubt.label])} "
            f"({doubt.probability:.1%} likely), seems to be {one_line(names[doubt.seems])}"
        )


def _image(doubt: Doubt, paths: Sequence[str] | None) -> str | int:
    return doubt.image if paths is None else paths[doubt.image]
