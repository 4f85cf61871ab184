"""Which key belongs to which site: ``federation.json`` next to the app, on the server.

Only the operator writes it. The gate and the server use it: a name has one key, and a key belongs
to one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fedgrain.deployment.certificates import flower_bytes
from fedgrain.errors import DeploymentError
from fedgrain.files import read_text, write_text
from fedgrain.parsing import parse_json
from fedgrain.text import one_line

FILE = "federation.json"
# names of the files next to a site's key, and words of nginx's maps
_TAKEN = (
    *("ca", "ca.crt", "trusted.yaml"),
    *("default", "hostnames", "include", "volatile"),
)


@dataclass(frozen=True)
class Member:
    """A site: its public key, one line of OpenSSH, and the serials of its certificates."""

    key: str = ""  # empty: no key yet
    serials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Where a federation is reached, and who takes part."""

    host: str
    port: int
    link_port: int
    hub_port: int
    members: Mapping[str, Member] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.members:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name in _TAKEN:
                raise DeploymentError(
                    f"site {name!r}: write a name of letters, digits, dots, dashes and "
                    f"underscores, but not {' or '.join(_TAKEN)}"
                )
        ports = (self.port, self.link_port, self.hub_port)
        for port in ports:
            if not 1 <= port <= 65535:
                raise DeploymentError(f"port {port} must lie between 1 and 65535")
        if len(set(ports)) < len(ports):
            raise DeploymentError("give --port, --link-port and --hub-port different numbers")
        if not re.fullmatch(r"[A-Za-z0-9.:-]+", self.host):
            raise DeploymentError(f"host {self.host!r} is neither a name nor an address")

    @property
    def address(self) -> str:
        """Where sites reach the gate."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def hosts(self) -> list[str]:
        """All names and addresses the server's certificate is for."""
        return list(dict.fromkeys([self.host, "127.0.0.1", "localhost"]))

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record; it is checked like the operator's input."""
        try:
            values = parse_json(read_text(path), path, DeploymentError, "restore it from a copy")
            sites = values.pop("sites")
            members = {
                name: Member(str(site["key"]), tuple(_serial(n) for n in site["serials"]))
                for name, site in sites.items()
            }
            for key in (member.key for member in members.values() if member.key):
                flower_bytes(key)  # raises if it is not a key
            ports = {name: int(values[name]) for name in ("port", "link_port", "hub_port")}
            return cls(str(values["host"]), **ports, members=members)
        except FileNotFoundError as error:
            raise DeploymentError(
                f"{path}: there is no such file; give a folder of fedgrain flower init"
            ) from error
        except DeploymentError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DeploymentError(
                f"{path}: not the record of a federation ({type(error).__name__}: {error}); "
                "restore it from a copy"
            ) from error

    def write(self, path: Path) -> None:
        """Write the record whole."""
        values: dict[str, Any] = asdict(self)
        values["sites"] = values.pop("members")
        write_text(path, json.dumps(values, indent=2) + "\n")


def _serial(text: str) -> str:
    if not re.fullmatch("[0-9A-F]{1,64}", text):
        raise ValueError(f"{text!r} is not the serial number of a certificate")
    return text


class Node(Protocol):
    """What Flower knows about a connected node."""

    name: str
    public_key: bytes


AnyNode = TypeVar("AnyNode", bound=Node)


class Roster:
    """Decides by the current record whether a node may take part."""

    def __init__(self, path: Path | None) -> None:
        self.path = path  # None: an open federation on one machine, without keys
        self._refused: dict[int, str] = {}  # who was refused, and why

    def look(self) -> Mapping[str, bytes] | None:
        """Return every site's key in Flower's format; None if anyone may take part."""
        if self.path is None:
            return None
        members = Record.read(self.path).members
        return {name: flower_bytes(member.key) for name, member in members.items() if member.key}

    def admit(self, nodes: Mapping[int, AnyNode]) -> tuple[dict[int, AnyNode], list[str]]:
        """Return the nodes that may take part, and new messages about the others.

        Do not send anything to those others: the record does not have their key for their name.
        """
        keys = self.look()
        reasons = {number: refusal(keys, node) for number, node in nodes.items()}
        out = {number: reason for number, reason in reasons.items() if reason is not None}
        said = [
            f"{one_line(nodes[number].name or f'node {number}')} does not take part: {reason}"
            for number, reason in out.items()
            if self._refused.get(number) != reason
        ]
        self._refused = out
        return {number: node for number, node in nodes.items() if number not in out}, said


def refusal(keys: Mapping[str, bytes] | None, node: Node) -> str | None:
    """Return why a node may not take part; None if its name and key match."""
    if keys is None:
        return None
    if not node.name:
        return "its key is registered without a name; a site's name belongs to one key"
    if node.name not in keys:
        return f"the record has no key of {node.name!r}; add it with fedgrain flower add"
    if node.public_key != keys[node.name]:
        return f"its key is not the recorded key of {node.name!r}: an impostor, or an old key"
    return None
