"""How a run ended: the scores of its best weights, as ``result.json`` holds them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fedgrain.arithmetic import one_thread
from fedgrain.config.config import Config
from fedgrain.federated.algorithm import FinalModel
from fedgrain.federated.federation import Indices
from fedgrain.images.images import LabelledImages
from fedgrain.models.trained_model import Prediction, TrainedModel
from fedgrain.preparation.prepare import Prepared, load_images, server_validation
from fedgrain.preparation.zero_shot import seen_and_unseen_hf
from fedgrain.runs.checkpoint import RunProgress
from fedgrain.runs.evaluate import class_rows, image_rows, predicted_nodes, scores_of, truths
from fedgrain.runs.run_folder import RunFolder
from fedgrain.scoring.summary import Summary


@dataclass(frozen=True, eq=False)
class Result:
    """How a run ended, and the model it learned; ``values`` is all of ``result.json``."""

    values: dict[str, Any]
    model: TrainedModel
    folder: Path | None
    lines: tuple[dict[str, Any], ...] = ()  # of its rounds, where no folder keeps them

    @property
    def hf(self) -> float | None:
        """Hierarchical F of the tested images; None without test images."""
        return self._number("hf")

    @property
    def hr(self) -> float | None:
        """Hierarchical recall of the tested images."""
        return self._number("hr")

    @property
    def hp(self) -> float | None:
        """Hierarchical precision of the tested images."""
        return self._number("hp")

    @property
    def accuracy(self) -> float | None:
        """Leaf accuracy of the tested images."""
        return self._number("accuracy")

    @property
    def tested_on(self) -> str | None:
        """Which images were tested: the test split, else the server's validation images."""
        split: str | None = self.values["tested_on"]
        return split

    @property
    def validation_hf(self) -> float | None:
        """The validation HF of the kept model; None without validation images.

        It is over all labels, and predictions are cut back where a label is coarse: see
        :attr:`validation`.
        """
        return self._number("validation_hf")

    @property
    def validation(self) -> dict[str, Any] | None:
        """The validation scores of the kept model, and the number of labels behind each.

        ``leaf_hf`` over the ``leaf_samples`` labels that are leaves, ``hf`` over all ``samples``,
        ``weighted_hf`` (it decides early stopping) over all by what a label tells. None without
        validation images, and in results of older versions.
        """
        found: dict[str, Any] | None = self.values.get("validation")
        return found

    @property
    def rounds(self) -> int:
        """Rounds of the algorithm, or of its first stage."""
        return int(self.values["rounds"])

    @property
    def cycles(self) -> int:
        """Cycles over the branches; 0 where there are none."""
        return int(self.values["cycles"])

    @property
    def seconds(self) -> float:
        """The time its rounds took."""
        return float(self.values["seconds"])

    @property
    def untrained_branches(self) -> list[str]:
        """Ids of the branches that were never trained."""
        return list(self.values["untrained_branches"])

    def history(self) -> list[dict[str, Any]]:
        """Return a row per round, or cycle, as ``metrics.jsonl`` has it; ready for ``pandas``."""
        return list(self.lines) if self.folder is None else RunFolder(self.folder).metrics_lines()

    def class_scores(self) -> list[dict[str, Any]]:
        """Return a row per class of the tested images, ready for ``pandas``; empty without any.

        A row has the class (``id``, ``name``, ``depth``), how many ``images`` have it as their
        label, and the means of ``hr``, ``hp``, ``hf`` and ``accuracy`` over them. The data set of
        the run is loaded again, and its images are predicted again.
        """
        tested = self._tested_images()
        if tested is None:
            return []
        with one_thread():
            return class_rows(self.model, *tested)

    def table(self, rule: str = "leaf", threshold: float | None = None) -> list[dict[str, Any]]:
        """Return a row per tested image, ready for ``pandas.DataFrame``; empty without any.

        A row has the number of the ``image`` in its data set, its ``label`` and ``label_name``, the
        node ``predicted`` by the rule with its ``predicted_name`` and ``probability``, and ``hr``,
        ``hp`` and ``hf``. The data set of the run is loaded again, and its images predicted again.
        """
        tested = self._tested_images()
        if tested is None:
            return []
        with one_thread():
            return image_rows(self.model, *tested, rule, threshold)

    def _tested_images(self) -> tuple[LabelledImages, Indices] | None:
        """Return the data set of the run, and which of its images were tested."""
        if self.tested_on is None:
            return None
        config = Config(**self.values["config"]).complete()
        data = load_images(config, self.model.trunk)
        held_out = self.tested_on == "validation"
        return data, server_validation(config, data) if held_out else data.split_indices("test")

    def predict(self, images: Any, **rule: Any) -> list[Prediction]:
        """Predict a path for each image: :meth:`fedgrain.TrainedModel.predict`."""
        return self.model.predict(images, **rule)

    def _number(self, name: str) -> float | None:
        value = self.values[name]
        return None if value is None else float(value)


def result_values(
    config: Config,
    prepared: Prepared | None,
    model: TrainedModel,
    final: FinalModel,
    progress: RunProgress,
) -> dict[str, Any]:
    """Test the final model and gather ``result.json``; without images no score is in it."""
    score = final.validation
    tested, split = (None, None) if prepared is None else _tested(prepared)
    scores: dict[str, Any] = dict.fromkeys(field.name for field in fields(Summary))
    labels = None
    if prepared is not None and tested is not None:
        truth = truths(model, prepared.data, tested)
        nodes = predicted_nodes(model, prepared.federation.source, tested, "leaf", None)
        scores.update(asdict(scores_of(model, nodes, truth)))
        labels = _leaf_labels(model, nodes, truth)
        if config.zero_shot:
            trees = model.taxonomy, model.full_taxonomy
            scores.update(seen_and_unseen_hf(nodes, truth, *trees, config.seed))
    return {
        **scores,
        "tested_on": split,
        "tested_labels": labels,
        "validation_hf": None if score is None else score.hf,
        "validation": score.entries() if score is not None and score.samples else None,
        "rounds": final.rounds,
        "cycles": final.cycles,
        "faults": progress.faults,
        "retries": progress.retries,
        "seconds": round(progress.seconds, 3),
        "core_seconds": round(progress.core_seconds, 3),
        "bytes_sent": progress.bytes_sent,
        "seed": config.seed,
        "untrained_branches": [model.taxonomy.ids[e] for e in final.untrained_branches],
        "config": config.settings(),
    }


def _leaf_labels(model: TrainedModel, nodes: Indices, truth: Indices) -> dict[str, Any]:
    """Return how many of the tested labels are leaves, and the HF over these."""
    leaves = model.full_taxonomy.is_leaf(truth)
    hf = scores_of(model, nodes[leaves], truth[leaves]).hf if leaves.any() else None
    return {"samples": len(truth), "leaf_samples": int(leaves.sum()), "leaf_hf": hf}


def _tested(prepared: Prepared) -> tuple[Indices, str] | tuple[None, None]:
    """Return the images to test on and their split: the test images, else the server's own."""
    validation = prepared.federation.validation
    if len(prepared.test):
        return prepared.test, "test"
    if validation is not None and len(validation):
        return validation.indices, "validation"
    return None, None
