"""``fedgrain flower apply``: update a running SuperLink and gate from the record."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedgrain.deployment.certificates import flower_bytes
from fedgrain.deployment.key_record import FILE, Record, refusal
from fedgrain.errors import DeploymentError
from fedgrain.membership.gate import FILE as RULES
from fedgrain.membership.gate import STATE
from fedgrain.text import one_line

_TRY_SECONDS = 30


@dataclass
class Applied:
    """What changed at the server."""

    registered: list[str] = field(default_factory=list)
    unregistered: list[str] = field(default_factory=list)
    without_key: list[str] = field(default_factory=list)
    gate: bool = False  # whether it is running and reloaded its rules


def apply(folder: Path) -> Applied:
    """Register every key of the record under its name, and nothing else; reload the gate."""
    record = Record.read(folder / FILE)
    keys = {name: flower_bytes(member.key) for name, member in record.members.items() if member.key}
    applied = Applied(without_key=[name for name in record.members if name not in keys])
    with _control(folder, record) as control:
        there = set()
        for node in control.ListNodes(ListNodesRequest()).nodes_info:
            if node.status == "unregistered":
                continue
            if refusal(keys, node) is not None or node.name in there:
                control.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
                applied.unregistered.append(node.name or str(node.node_id))
            else:
                there.add(node.name)
        for name in keys.keys() - there:
            control.RegisterNode(RegisterNodeRequest(public_key=keys[name], name=name))
            applied.registered.append(name)
    applied.registered.sort()
    applied.gate = _reload(folder)
    return applied


@contextmanager
def _control(folder: Path, record: Record) -> Iterator[ControlHttpClient]:
    address = f"127.0.0.1:{record.link_port}"
    certificate = (folder / "certificates" / "ca.crt").read_bytes()
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    client = ControlHttpClient.from_server_address(address, False, certificate, [version])
    try:
        yield client
    except httpx.HTTPStatusError as error:
        said = error.response.text[:300]
        raise DeploymentError(f"the SuperLink at {address} refuses: {said}") from error
    except httpx.TransportError as error:
        raise DeploymentError(
            f"no SuperLink of this federation answers at {address} ({error}); start it as "
            "COMMANDS.md says (again, if its certificate was renewed)"
        ) from error
    finally:
        client.close()


def _reload(folder: Path) -> bool:
    """Tell the gate to read its rules again; rules that nginx refuses are an error.

    nginx would keep the old ones and say so only in its log: a removed site would still get in.
    """
    try:
        process = int((folder / STATE / "nginx.pid").read_text())
        if b"nginx" not in Path(f"/proc/{process}/cmdline").read_bytes():
            return False
        program = str(Path(f"/proc/{process}/exe").readlink()).removesuffix(" (deleted)")
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return False
    words = [program, "-t", "-q", "-e", "stderr", "-p", f"{folder.absolute()}/", "-c", RULES]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=_TRY_SECONDS)
    if tried.returncode:
        raise DeploymentError(
            f"the gate keeps its old rules: nginx refuses {folder / RULES} "
            f"({one_line(tried.stderr, 300)}); the SuperLink is updated"
        )
    try:
        os.kill(process, signal.SIGHUP)
    except ProcessLookupError:
        return False
    return True
