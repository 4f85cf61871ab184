"""What the server has before the first round: a description of the model, settings, an engine.

All images of real sites stay with them, so the server has none; a benchmark it has in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flwr.serverapp import Grid

from fedgrain.config.config import Config
from fedgrain.deployment.app import App
from fedgrain.deployment.flower_engine import FlowerEngine
from fedgrain.deployment.key_record import Roster
from fedgrain.deployment.ledger import ServerLedger
from fedgrain.deployment.privacy import need_accounting
from fedgrain.deployment.server_record import ServerRecord
from fedgrain.deployment.server_settings import Operation
from fedgrain.deployment.strategies import average_by
from fedgrain.engines import BuiltModel, Validator
from fedgrain.errors import DeploymentError
from fedgrain.federated import TrainingSettings
from fedgrain.images.images import UNKNOWN_STATISTICS
from fedgrain.models.model_folder import ModelDescription
from fedgrain.preparation.prepare import (
    Prepared,
    coarse_taxonomy,
    model_spec,
    prepare,
    training_settings,
)
from fedgrain.records.chain import Chain

RECORD = "record.jsonl"  # of all messages, in the run folder


@dataclass(frozen=True, eq=False)
class ServerSide:
    """What the server has: a model to start from and settings; images only of a benchmark."""

    description: ModelDescription
    settings: TrainingSettings
    prepared: Prepared | None  # None if all images are at the sites


def server_side(app: App, operation: Operation) -> ServerSide:
    """Return what the server has; if sites withhold their counts, one sample is enough."""
    own = _server_side(app, operation.sites)
    if operation.privacy is None:
        return own
    need_accounting()
    return replace(own, settings=replace(own.settings, min_branch_samples=1))


def _server_side(app: App, sites: Sequence[str]) -> ServerSide:
    """Return the whole of a benchmark; of real sites only what the app says."""
    config = app.config
    if config.dataset != "folder":
        prepared = prepare(config)
        clients = len(prepared.federation.clients)
        if len(sites) != clients:
            raise DeploymentError(
                f"the app has {len(sites)} sites, but the config {clients} clients; "
                "make the app again with as many sites"
            )
        return ServerSide(prepared.description, prepared.settings, prepared)
    size = app.image_size
    description = ModelDescription(
        model_spec(config, size, app.trunk),
        coarse_taxonomy(config, app.tree),
        app.tree,
        (size, size, len(UNKNOWN_STATISTICS.mean)),
        UNKNOWN_STATISTICS,
    )
    return ServerSide(description, training_settings(config), None)


def open_engine(
    grid: Grid,
    config: Config,
    operation: Operation,
    own: ServerSide,
    ledger: ServerLedger | None,
) -> FlowerEngine:
    """Return the engine over the sites; it validates here only if the config says so."""
    about = own.description
    model = BuiltModel(about.spec, about.taxonomy, about.image_shape, own.settings.seed)
    validator = None
    if config.validation == "server":
        if own.prepared is None:
            raise DeploymentError(
                "validation is server, but the server has no images; set validation to clients"
            )
        validator = Validator(own.prepared.federation, model)
    return FlowerEngine(
        grid,
        model,
        operation.sites,
        own.settings,
        validator=validator,
        time_limit=config.client_time_limit,
        new_average=average_by(operation.strategy, config, model.parameters),
        ledger=ledger,
        most_samples=operation.most_samples,
        roster=Roster(operation.record),
        record=ServerRecord(Chain(operation.run_folder / RECORD, "the server")),
    )
