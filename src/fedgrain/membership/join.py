"""``fedgrain flower join``: Flower's SuperNode, with the site's certificate for the gate.

``flower-supernode`` 1.41 has no option for a client certificate, so this starts the same program
with one change: its connection to the Fleet API presents the certificate. All safety settings are
on: the server's authority is checked, only apps signed by the operator run, apps cannot install
anything, and the only open port is on loopback.
"""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fedgrain.deployment.certificates import write_file
from fedgrain.errors import DeploymentError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    # a SuperNode installs nothing by default; keep it so even if the default changes
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


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


def _supernode_arguments(
    credentials: SiteCredentials,
    server: str,
    node_config: str,
    port: int,
    extra: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of Flower's SuperNode."""
    return [
        "--root-certificates", str(credentials.authority),
        "--auth-supernode-private-key", str(credentials.key),
        "--trusted-entities", str(credentials.trusted),
        "--superlink", server,
        "--host", "127.0.0.1",
        "--port", str(port),
        *(["--node-config", node_config] if node_config else []),
        *extra,
    ]  # fmt: skip


def join(
    credentials: SiteCredentials,
    server: str,
    node_config: str,
    port: int,
    max_retries: int | None = None,
) -> None:
    """Run as a site until stopped."""
    credentials.check()
    credentials.context()  # before anything starts
    os.environ.update(QUIET)
    programs = Path(sys.executable).parent  # Flower finds its own helpers by the path
    os.environ["PATH"] = os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])
    from flwr.supernode.cli import flower_supernode
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
    arguments = _supernode_arguments(credentials, server, node_config, port, extra)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()
