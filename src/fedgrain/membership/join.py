"""``fedgrain flower join``: Flower's SuperNode, with the site's certificate for the gate.

``flower-supernode`` 1.41 has no option for a client certificate, so this starts the same program
with one change: its connection to the Fleet API presents the certificate
(:mod:`fedgrain.membership.supernode` has the others). All safety settings are on: the server's
authority is checked, only apps signed by the operator are used, no code of theirs runs, and the
only open port is on loopback.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fedgrain.deployment.certificates import write_file
from fedgrain.errors import DeploymentError
from fedgrain.membership.supernode import QUIET, run_supernode
from fedgrain.policy.site_policy import Policy, read_policy
from fedgrain.records.chain import Chain
from fedgrain.text import one_line


@dataclass(frozen=True)
class SiteCredentials:
    """A site's key and certificates, and what it trusts."""

    key: Path
    own: Path  # the site's certificate
    authority: Path  # ca.crt
    trusted: Path  # whose apps it runs

    @classmethod
    def beside(
        cls,
        key: Path,
        own: Path | None = None,
        authority: Path | None = None,
        trusted: Path | None = None,
    ) -> SiteCredentials:
        """Return the files given; the others have the names that ``init`` and ``add`` give them."""
        return cls(
            key,
            own or key.with_name(f"{key.name}.crt"),
            authority or key.with_name("ca.crt"),
            trusted or key.with_name("trusted.yaml"),
        )

    def check(self) -> None:
        """Raise an error if one of them is missing."""
        for path in (self.key, self.own, self.authority, self.trusted):
            if not path.is_file():
                raise DeploymentError(f"{path}: there is no such file; ask the operator for it")
        if not self.trusted.read_text(errors="replace").strip():
            # Flower treats an empty list as no restriction, and runs everything
            raise DeploymentError(f"{self.trusted}: names no key; ask the operator for it")

    def context(self) -> ssl.SSLContext:
        """Return the TLS context: trust only this authority, present this certificate."""
        try:
            key = serialization.load_ssh_private_key(self.key.read_bytes(), None)
            pem = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.authority)
            with tempfile.TemporaryDirectory() as place:
                write_file(Path(place) / "key", pem, private=True)
                context.load_cert_chain(self.own, Path(place) / "key")
        except (ValueError, TypeError, UnsupportedAlgorithm, ssl.SSLError) as error:
            raise DeploymentError(
                f"{self.key}, {self.own} and {self.authority} do not belong together ({error}); "
                "take all of them from one folder"
            ) from error
        return context


@dataclass(frozen=True)
class OwnersFiles:
    """What the owner of a site writes and reads: the policy, and the record of messages."""

    policy: Path | None
    record: Path
    later: Path | None = None  # where a policy may be written after the site has joined

    @classmethod
    def beside(cls, key: Path, policy: Path | None, record: Path | None) -> OwnersFiles:
        """Return the files given; the others lie next to the key. A policy need not exist yet."""
        usual = key.with_name("site.toml")
        chosen = policy or (usual if usual.exists() else None)
        return cls(chosen, record or key.with_name("record.jsonl"), usual)

    def checked(self, server: str, node_config: str) -> str:
        """Check server and record against the policy; return the settings of the node with both."""
        policy = read_policy(self.policy) if self.policy is not None else Policy()
        if policy.addresses is not None and server not in policy.addresses:
            raise DeploymentError(
                f"{self.policy}: server.addresses allows {' or '.join(policy.addresses)}, not "
                f"{server}; change one of the two"
            )
        self._check_record()
        given = _parsed(node_config)
        paths = {"policy": self.policy, "record": self.record}
        if self.policy is None and "policy" not in given:
            paths["policy-later"] = self.later
        own = [f'{name}="{path.absolute()}"' for name, path in paths.items()
               if path is not None and name not in given]  # fmt: skip
        return " ".join([node_config, *own]).strip()

    def _check_record(self) -> None:
        """Raise an error if the record is damaged or cannot be written: nothing would leave."""
        if self.record.exists():
            Chain(self.record, "").verify()
            return
        place = next(one for one in self.record.absolute().parents if one.exists())
        if not os.access(place, os.W_OK):
            raise DeploymentError(
                f"{self.record}: the record cannot be written in {place}, and nothing leaves "
                "without it; give another place with --record"
            )


def _parsed(node_config: str) -> dict[str, Any]:
    """Return the settings of a site as Flower reads them."""
    from flwr.common.config import parse_config_args

    try:
        return dict(parse_config_args([node_config] if node_config else None))
    except Exception as error:  # Flower's own, of several kinds
        raise DeploymentError(
            f"--node-config {node_config!r} cannot be read ({one_line(error, 200)}); write "
            'NAME="TEXT", one after the other'
        ) from None


def _supernode_arguments(
    credentials: SiteCredentials,
    server: str,
    node_config: str,
    extra: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of Flower's SuperNode."""
    return [
        "--root-certificates", str(credentials.authority),
        "--auth-supernode-private-key", str(credentials.key),
        "--trusted-entities", str(credentials.trusted),
        "--superlink", server,
        *(["--node-config", node_config] if node_config else []),
        *extra,
    ]  # fmt: skip


def join(
    credentials: SiteCredentials,
    server: str,
    node_config: str,
    port: int,
    max_retries: int | None = None,
    owner: OwnersFiles | None = None,
) -> None:
    """Run as a site until stopped."""
    credentials.check()
    if owner is not None:
        node_config = owner.checked(server, node_config)
    credentials.context()  # before anything starts
    os.environ.update(QUIET)
    from flwr.supernode.fleet_http_client import FleetHttpClient

    def from_server_address(
        cls: Any,
        server_address: str,
        insecure: bool,
        root_certificates: bytes | str | None,
        interceptors: Any,
        *,
        retry_invoker: Any = None,
    ) -> Any:
        return cls(
            f"https://{server_address}",
            interceptors=interceptors,
            verify=credentials.context(),
            retry_invoker=retry_invoker,
        )

    setattr(FleetHttpClient, "from_server_address", classmethod(from_server_address))  # noqa: B010
    extra = [] if max_retries is None else ["--max-retries", str(max_retries)]
    run_supernode(_supernode_arguments(credentials, server, node_config, extra), port)
