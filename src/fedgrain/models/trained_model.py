"""A trained model that predicts on its own: weights, taxonomy and preprocessing in one folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedgrain.calibration.record import Calibration, tempered
from fedgrain.checked_json import write_checked_json
from fedgrain.errors import RunError
from fedgrain.federated import ImageSource, Source
from fedgrain.heads import DecoupledModel, Head
from fedgrain.heads.chunks import run_in_chunks, samples_at_once
from fedgrain.images.any_images import as_pixels
from fedgrain.images.images import LabelledImages, Normalisation
from fedgrain.models.answers import Answer, Question, answers
from fedgrain.taxonomy import Taxonomy, to_json
from fedgrain.tensor_files import write_tensors
from fedgrain.trunks import ThroughTrunk, TrunkSpec, inputs_of

FORMAT = "fedgrain-model-1"
DESCRIPTION, WEIGHTS = "model.json", "best.safetensors"  # the files of a model
HUB_FILES = "config.json", "model.safetensors"  # the same for the Hugging Face Hub
Images = NDArray[np.uint8] | Source  # stored images, or what a net takes for each of them


@dataclass(frozen=True)
class Prediction:
    """The path from the root to the predicted node, with the probability of each level."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    probabilities: tuple[float, ...]
    members: tuple[tuple[str, str, float], ...] = ()  # of a set: id, name and probability of each
    strange: bool = False  # it looks like nothing in the taxonomy; the path is the root alone
    strangeness: float | None = None  # from 0 to 1, where it was asked for

    @property
    def id(self) -> str:
        """The predicted node."""
        return self.ids[-1]

    @property
    def name(self) -> str:
        """The name of the predicted node."""
        return self.names[-1]

    @property
    def probability(self) -> float:
        """The probability of the predicted node."""
        return self.probabilities[-1]


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The model of a run, ready to predict."""

    taxonomy: Taxonomy  # H
    full_taxonomy: Taxonomy
    normalisation: Normalisation
    image_shape: tuple[int, int, int]
    net_name: str  # as the config names them: the user's own are module:callable
    head_name: str
    head_settings: Mapping[str, Any]
    head: Head
    net: nn.Module | DecoupledModel  # with a trunk: only what was trained of it
    trunk: TrunkSpec | None = None
    calibration: Calibration | None = None  # older models, and those without validation, have none

    def batch(self, images: NDArray[np.uint8]) -> Tensor:
        """Check and normalise images [images, height, width, channels]."""
        images = np.asarray(images)
        if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1:] != self.image_shape:
            raise RunError(
                f"the model takes uint8 images of shape {list(self.image_shape)}, "
                f"not {images.dtype} {list(images.shape[1:])}"
            )
        everything = np.arange(len(images))
        if self.trunk is not None:
            return self._on_device(ThroughTrunk(images, self.trunk).batch(everything))
        return self._on_device(ImageSource(images, self.normalisation).batch(everything))

    def inputs(self, data: LabelledImages) -> Images:
        """Return the images of a data set as the trained part takes them.

        With a trunk these are its features, made once and kept in the cache.
        """
        return data.images if self.trunk is None else inputs_of(self.trunk, data)

    def block(self, images: Images, chosen: NDArray[np.int64]) -> Tensor:
        """Return the chosen images as the net takes them."""
        if isinstance(images, np.ndarray):
            return self.batch(images[chosen])
        return self._on_device(images.batch(chosen))

    @property
    def interpolation(self) -> str:
        """How image files are resized to what the model takes."""
        if self.trunk is None or self.image_shape[0] != self.trunk.preprocessing.resized:
            return "bilinear"
        return self.trunk.preprocessing.interpolation

    def _on_device(self, batch: Tensor) -> Tensor:
        return batch.to(next(self.net.parameters()).device)

    def node_log_probs(self, images: Any) -> Tensor:
        """Return log P of every node of H [images, nodes]; images as in :meth:`predict`."""
        images = self.pixels(images)
        return torch.cat(list(self.log_prob_blocks(images, np.arange(len(images)))))

    def log_prob_blocks(self, images: Images, chosen: NDArray[np.int64]) -> Iterator[Tensor]:
        """Return log P of every node for the chosen images, a block of images at a time.

        For many images and a large tree the whole table may be larger than memory.
        """
        for block in self.blocks(chosen):
            yield self._block_log_probs(self.block(images, block))

    def blocks(self, chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Divide image numbers into blocks; at least one block."""
        size = samples_at_once(len(self.taxonomy))
        for start in range(0, max(1, len(chosen)), size):
            yield chosen[start : start + size]

    def logits(self, images: Images, chosen: NDArray[np.int64]) -> Tensor:
        """Return what the net says of the chosen images, before any temperature."""
        return torch.cat([self._outputs(self.block(images, b)) for b in self.blocks(chosen)])

    def _outputs(self, batch: Tensor) -> Tensor:
        if isinstance(self.net, DecoupledModel):
            return self.net.conditionals(batch)
        outputs = run_in_chunks(self.net, batch)
        self.head.check(outputs)
        return outputs

    def _block_log_probs(self, batch: Tensor) -> Tensor:
        """Return log P of every node, at the temperature of the calibration."""
        temperature = 1.0 if self.calibration is None else self.calibration.temperature
        with torch.no_grad():
            if temperature == 1.0 and isinstance(self.net, DecoupledModel):
                return self.net.node_log_probs(batch)
            return tempered(self.head, self._outputs(batch), temperature)

    @property
    def keeps_leaves(self) -> bool:
        """Whether the likeliest leaf is that of the model as it was trained."""
        return self.calibration is None or isinstance(self.calibration.temperature, float)

    def pixels(self, images: Any) -> NDArray[np.uint8]:
        """Return images in any form as the array the net takes: :func:`as_pixels`."""
        return as_pixels(images, self.image_shape, self.interpolation)

    def probabilities(self, images: Any) -> dict[str, NDArray[np.float32]]:
        """Return a column per node: its probability for each image, ready for ``pandas.DataFrame``.

        Images are given as in :meth:`predict`. A column is named as its node, from the root down;
        where several nodes have a name, with the id behind it.
        """
        table = self.node_log_probs(images).exp().cpu().numpy()
        tree, twice = self.taxonomy, Counter(self.taxonomy.names)
        names = [
            name if twice[name] == 1 else f"{name} ({node})"
            for node, name in zip(tree.ids, tree.names, strict=True)
        ]
        return dict(zip(names, table.T, strict=True))

    def predict(
        self, images: Any, rule: str = "leaf", threshold: float | None = None, **wanted: Any
    ) -> list[Prediction]:
        """Predict a node for each image, by the rules of section 7.

        Images are paths, PIL images, or arrays or tensors of any size and kind, one or several: see
        :func:`fedgrain.images.any_images.as_pixels`. The answer is always a list. ``wanted`` are
        further fields of :class:`fedgrain.models.answers.Question`, such as ``guarantee=0.9``.
        """
        return self.answered(self.pixels(images), Question(rule, threshold, **wanted))

    def answered(self, pixels: NDArray[np.uint8], wanted: Question) -> list[Prediction]:
        """Return an answer per image; the images are arrays that the net takes."""
        found = []
        for block in self.log_prob_blocks(pixels, np.arange(len(pixels))):
            trees = self.taxonomy, self.full_taxonomy
            given, shown = answers(block.cpu().numpy(), wanted, *trees, self.calibration)
            found += [self._along(row, one) for row, one in zip(shown, given, strict=True)]
        return found

    def _along(self, log_probs: NDArray[np.floating[Any]], answer: Answer) -> Prediction:
        tree, chance = self.taxonomy, torch.from_numpy(np.ascontiguousarray(log_probs)).exp()
        path = tree.path(answer.node).tolist()
        members = ((tree.ids[n], tree.names[n], float(chance[n])) for n in answer.members)
        return Prediction(
            tuple(tree.ids[n] for n in path),
            tuple(tree.names[n] for n in path),
            tuple(chance[path].tolist()),
            tuple(members),
            answer.strange,
            answer.strangeness,
        )

    # files

    def save(
        self,
        folder: str | Path,
        state: dict[str, Tensor],
        names: tuple[str, str] = (DESCRIPTION, WEIGHTS),
    ) -> None:
        """Write the files that :func:`fedgrain.models.model_folder.load` reads."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "net": self.net_name,
            "head": self.head_name,
            "head_settings": dict(self.head_settings),
            "branches": isinstance(self.net, DecoupledModel),
            "image_shape": list(self.image_shape),
            "mean": list(self.normalisation.mean),
            "deviation": list(self.normalisation.deviation),
            **({} if self.trunk is None else {"trunk": self.trunk.content()}),
            "taxonomy": to_json(self.taxonomy),
            "full_taxonomy": to_json(self.full_taxonomy),
        }
        if self.calibration is not None:
            content["calibration"] = self.calibration.entries(self.taxonomy)
        write_tensors(Path(folder, names[1]), state, {"format": FORMAT})
        write_checked_json(Path(folder, names[0]), content)
