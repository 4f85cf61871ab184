"""The signed app: sites run nothing else.

Flower's SuperNodes verify an app against the keys of ``--trusted-entities``. A signature reaches
them only with an app that the SuperLink fetched from a hub, so the gate is one, on loopback:
``FLWR_SUPERGRID_API_URL`` leads to it and ``flwr run @fedgrain/fedgrain-app==1.0.0`` asks it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from flwr.cli.build import build_fab_from_disk
from flwr.supercore.primitives.asymmetric_ed25519 import (
    create_message_to_sign,
    load_private_key,
    sign_message,
)

from fedgrain.deployment.certificates import write_file
from fedgrain.errors import DeploymentError
from fedgrain.files import read_text, write_text
from fedgrain.parsing import parse_json

APP_SPEC = "@fedgrain/fedgrain-app==1.0.0"  # with a version: the SuperLink then asks every time
FAB, _SIGNATURE = "app.fab", "app.sig.json"


def sign_app(folder: Path, key: Path) -> None:
    """Pack ``folder/app`` into app.fab and sign it with the operator's key."""
    try:
        private = load_private_key(key)
    except FileNotFoundError as error:
        raise DeploymentError(
            f"{key}: there is no such file, but the app is signed with it; restore it from "
            "where you keep the operator's secrets"
        ) from error
    except ValueError as error:
        raise DeploymentError(f"{key}: not an ed25519 key that can be read: {error}") from error
    fab, now = build_fab_from_disk(folder / "app"), int(time.time())
    signature = sign_message(private, create_message_to_sign(hashlib.sha256(fab).digest(), now))
    content = {
        "public_key_id": _key_id(public_key(key)),
        "signature": base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii"),
        "signed_at": now,
    }
    write_file(folder / FAB, fab)
    write_text(folder / _SIGNATURE, json.dumps(content) + "\n")


def public_key(key: Path) -> str:
    """Return a public key as one line."""
    return " ".join(read_text(key.with_name(f"{key.name}.pub")).split()[:2])


def _key_id(line: str) -> str:
    """Return the name under which sites know the key."""
    return f"fpk_{hashlib.sha256(line.encode()).hexdigest()[:32]}"


def trusted(key: Path) -> str:
    """Return the file for ``--trusted-entities``."""
    line = public_key(key)
    return f'{_key_id(line)}: "{line}"\n'


def hub_answer(folder: Path, port: int) -> str:
    """Return what the hub answers when the SuperLink asks for the app."""
    path = folder / _SIGNATURE
    advice = "sign the app again: fedgrain flower sign"
    signature: dict[str, Any] = parse_json(read_text(path), path, DeploymentError, advice)
    return json.dumps(
        {"fab_url": f"https://127.0.0.1:{port}/{FAB}", "verifications": [signature], "note": None}
    )
