"""The two Flower apps: the server's rounds, and a site's answers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedgrain.deployment.server import log_lines, serve
from fedgrain.deployment.site import Site, answered
from fedgrain.errors import FedgrainError

os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"  # telemetry is switched off earlier: see COMMANDS.md


def server_app(package: Path) -> ServerApp:
    """Return the app that runs the rounds of a federation."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            serve(grid, package, context.run_config)
        except FedgrainError as error:
            log_lines([f"error: {error}"])
            logging.getLogger("flwr").addFilter(without_traceback)
            raise  # Flower marks the run as failed

    return app


def without_traceback(record: logging.LogRecord) -> bool:
    """Let Flower report an error that the user can fix in one line, without a traceback."""
    if record.exc_info and isinstance(record.exc_info[1], FedgrainError):
        record.exc_info = record.exc_text = None
    return True


def client_app(package: Path) -> ClientApp:
    """Return the app that answers at a site."""
    app = ClientApp()

    def answer(
        message: Message, context: Context, handler: Callable[[Site], RecordDict]
    ) -> Message:
        content = answered(handler, package, context.node_config, context.run_config)
        return Message(content, reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return answer(message, context, lambda site: site.counts().record())

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answer(message, context, lambda site: site.train(message.content))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return answer(message, context, lambda site: site.evaluate(message.content))

    return app
