"""The files that say what a user's own images show: whether they changed since a run began."""

from __future__ import annotations

from pathlib import Path

from fedgrain import catalogue
from fedgrain.checksums import digest
from fedgrain.config.config import Config
from fedgrain.files import read_bytes


def digest_of_label_files(config: Config) -> str | None:
    """Return the SHA-256 of the manifest, the taxonomy and the knowledge file, in hex.

    It takes no image, so it is quick. None for other data sets, and if there is no such file.
    """
    if not catalogue.dataset(config.dataset).own_images:
        return None
    from fedgrain.folders.folder import MANIFEST, TREE  # needs numpy, a folder does not

    root = config.data_root
    named = (
        config.manifest or (root and Path(root) / MANIFEST),
        config.taxonomy or (root and Path(root) / TREE),
        config.knowledge_file,
    )
    files = [Path(path) for path in named if path is not None and Path(path).is_file()]
    return digest([digest([read_bytes(path)]).encode() for path in files]) if files else None
