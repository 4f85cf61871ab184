"""Predictions as SpeciesNet writes them, for the programs that read its JSON (cameratrapai).

A class is ``uuid;class;order;family;genus;species;common name``; a coarse answer leaves the finer
fields empty. Here the node's id stands for the uuid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fedgrain.catalogue import EXCHANGE_FORMATS
from fedgrain.models.exchange import PredictedBy, json_list
from fedgrain.models.predict_files import PredictedFile
from fedgrain.models.trained_model import Prediction

RANKS = EXCHANGE_FORMATS["speciesnet"].ranks


def as_speciesnet(rows: Iterable[PredictedFile], by: PredictedBy) -> Iterator[str]:
    """Yield the object ``{"predictions": [...]}``."""
    return json_list('{"predictions": ', (_entry(row, by) for row in rows), "}")


def _entry(row: PredictedFile, by: PredictedBy) -> dict[str, Any]:
    about: dict[str, Any] = {"filepath": row.image}
    if row.prediction is None:
        return {**about, "failures": ["CLASSIFIER"], "model_version": by.model}
    label, score = label_of(row.prediction, by.ranks), row.prediction.probability
    return {
        **about,
        "classifications": {"classes": [label], "scores": [score]},
        "prediction": label,
        "prediction_score": score,
        "prediction_source": "classifier",
        "model_version": by.model,
    }


def label_of(found: Prediction, ranks: tuple[str, ...]) -> str:
    """Return the class; without known ranks it has an id and a name alone."""
    names = [_plain(name) for name in found.names]
    taxa = dict(zip(ranks, names[1:], strict=False))
    genus, species = taxa.get("genus", ""), taxa.get("species", "")
    if genus and species.lower().startswith(f"{genus.lower()} "):
        taxa["species"] = species[len(genus) + 1 :]  # SpeciesNet has the epithet alone
    fields = [taxa.get(rank, "").lower() for rank in RANKS]
    return ";".join([_plain(found.id), *fields, names[-1]])


def _plain(text: str) -> str:
    """Return a text that does not end a field."""
    return text.replace(";", ",")
