"""A model of the Hugging Face Hub: ``HubModel.from_pretrained("you/your-model")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fedgrain.errors import ExportError
from fedgrain.exports.exported import Exported
from fedgrain.exports.huggingface import write_hub_files
from fedgrain.exports.whole_model import WholeModel
from fedgrain.models.model_folder import load
from fedgrain.models.trained_model import Prediction, TrainedModel
from fedgrain.plugins import Trust

try:
    from huggingface_hub import PyTorchModelHubMixin, snapshot_download
except ImportError:
    raise ExportError(
        "models of the Hugging Face Hub need huggingface_hub; pip install huggingface_hub"
    ) from None


class HubModel(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="fedgrain",
    pipeline_tag="image-classification",
    tags=["federated-learning", "hierarchical-classification"],
):
    """A trained model as a module of PyTorch, with ``from_pretrained`` and ``push_to_hub``.

    ``from_pretrained`` takes a folder that ``fedgrain export --format huggingface`` wrote, or the
    name of a repository of the Hub; ``trust_code=True`` runs a net or head that is code.
    """

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.model = model
        self.whole = WholeModel(model)

    def forward(self, images: Tensor) -> Tensor:
        """Images, uint8 [images, height, width, channels], to P of every node [images, nodes]."""
        probabilities: Tensor = self.whole(images)
        return probabilities

    def predict(self, images: Any, **rule: Any) -> list[Prediction]:
        """Predict as :meth:`fedgrain.TrainedModel.predict` does."""
        return self.model.predict(images, **rule)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None = None,
        cache_dir: str | Path | None = None,
        force_download: bool = False,
        local_files_only: bool = False,
        token: str | bool | None = None,
        trust_code: Trust = False,
        **_: Any,
    ) -> HubModel:
        folder = str(model_id)
        if not Path(folder).is_dir():
            folder = snapshot_download(
                folder,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
            )
        return cls(load(folder, trust_code=trust_code))

    def _save_pretrained(self, save_directory: Path) -> None:
        write_hub_files(Exported(self.model), save_directory)
