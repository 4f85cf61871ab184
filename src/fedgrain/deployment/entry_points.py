"""The two Flower apps: the server's rounds, and a site's answers.

A site's app only passes messages on: it starts without torch and without the server's code.
"""

from __future__ import annotations

import logging
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgrain.errors import FedgrainError
from fedgrain.handover.passing import Request, failure, note_failure, pass_on
from fedgrain.handover.watching import end_with

if TYPE_CHECKING:
    from flwr.serverapp import Grid, ServerApp

os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"  # telemetry is switched off earlier: see COMMANDS.md


def server_app(package: Path) -> ServerApp:
    """Return the app that runs the rounds of a federation."""
    from flwr.serverapp import ServerApp

    from fedgrain.deployment.server import log_lines, serve

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        end_with(os.getppid())  # Flower's own way to end then can hang, with the folder locked
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

    def answer(message: Message, context: Context) -> Message:
        return Message(_answer(package, message, context), reply_to=message)

    for kind in (app.query, app.train, app.evaluate):
        kind()(answer)
    return app


def _answer(package: Path, message: Message, context: Context) -> RecordDict:
    """Let the worker answer; whatever goes wrong with it becomes the site's answer."""
    about = message.metadata
    request = Request(
        about.message_type.partition(".")[0],
        str(package),
        dict(context.node_config),
        dict(context.run_config),
        str(about.run_id),
        about.message_id,
    )
    try:
        return pass_on(request, message.content, about.ttl)
    except (FedgrainError, OSError) as error:
        traceback.print_exc()
        note_failure(request)
        return failure(error, request.node, request.settings)
