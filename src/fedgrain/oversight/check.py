"""``fedgrain flower check``: is a site ready to join? Each problem comes with its fix."""

from __future__ import annotations

import datetime
import http.client
import ssl
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from cryptography.x509.oid import NameOID
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedgrain import catalogue
from fedgrain.deployment.app import App, app_privacy, app_settings
from fedgrain.deployment.certificates import HOW_TO_MAKE
from fedgrain.deployment.privacy import Privacy
from fedgrain.deployment.server_settings import site_names
from fedgrain.errors import DeploymentError, FedgrainError
from fedgrain.folders.manifest import read_manifest
from fedgrain.handover.passing import PACKAGE
from fedgrain.membership.join import SiteCredentials
from fedgrain.oversight.findings import Finding
from fedgrain.oversight.reaching import proxy_for, reached
from fedgrain.plugins import Trust, check_trust
from fedgrain.policy.site_policy import Policy
from fedgrain.preparation.prepare import Prepared
from fedgrain.sites.site import Site, alone, prepare_site
from fedgrain.text import one_line

_COUNTS = (
    "how many samples enter the loss, in all and per branch of the taxonomy{rounded}: "
    "this shows the server the histogram of your labels"
)
_SCORES = "validation scores of each round{digits}, and over how many samples they are{rounded}"
_CALIBRATION = (
    "at the end, if sites validate: sums of losses over the validation images, and how many images "
    "of each label have a score in each of 1,026 steps"
)
_NAME = "the name of the site, and of the type of an error if one happens"
_LEAVES_PRIVATELY = (
    "the change of the model's weights by each local training, clipped to a norm of {clip:g} and "
    "with noise of a deviation of {deviation:g} on every weight: no loss, no count, no score",
    "how many such updates you have sent, as your ledger says; every one costs privacy",
    "the name of the site, when it answers, and that it failed if it did, but not why",
)
STAYS = "images, the label of any image, names of files, and what your labellers know"
_CONNECT_SECONDS, _ANSWER_SECONDS = 10.0, 60.0


@dataclass(frozen=True)
class Server:
    """How the site reaches the server."""

    address: str
    certificate: Path
    credentials: SiteCredentials | None = None


def check_site(
    app_folder: Path,
    images: Path,
    site: str,
    knowledge: str | None,
    rounding: int,
    *,
    allow_links: bool = False,
    trust_code: Trust = False,
) -> tuple[list[Finding], dict[str, Any]]:
    """Check a site's labels and images against the app; also return the counts."""
    package = app_folder / PACKAGE
    if not package.is_dir():
        raise DeploymentError(f"{app_folder}: no app of fedgrain flower init; give its folder app")
    app = App.read(package)
    check_trust(app.config.settings(), package / "config.toml", trust_code, DeploymentError)
    if app.taxonomy is None:
        raise DeploymentError(f"{app_folder}: the app is of a benchmark; there are no images")
    try:
        rows = read_manifest(images, app.taxonomy)
    except FedgrainError as error:
        return [_name(app_folder, site), Finding("labels", False, str(error))], {}
    depths = np.bincount(app.taxonomy.depth[rows.labels])
    counted: dict[str, Any] = {
        "images": len(rows.labels),
        "per_depth": {str(depth): int(count) for depth, count in enumerate(depths)},
    }
    findings = [
        _name(app_folder, site),
        Finding("labels", True, f"all {len(rows.labels)} are nodes of the taxonomy"),
    ]
    try:
        prepared = prepare_site(app, site, images, knowledge, allow_links=allow_links)
    except FedgrainError as error:
        return [*findings, Finding("images", False, str(error))], counted
    findings += _of_data(prepared)
    private = app_privacy(app_folder) is not None
    counts = Site(site, alone(prepared, 0), 1 if private else rounding).counts()
    ids = prepared.federation.taxonomy.ids
    counted["withheld" if private else "told"] = {
        "samples": counts.whole,
        "per_branch": {ids[e]: count for e, count in counts.branches.items()},
    }
    gamma = 1 if private else app.config.min_branch_samples
    if counts.whole < 1:
        text = "no sample enters the loss; label deeper, or ask for another head or supervision"
        findings.append(Finding("samples", False, text))
    elif catalogue.algorithm(app.config.algorithm).by_branch:
        able = sum(count >= gamma for count in counts.branches.values())
        text = f"{able} of {len(counts.branches)} branches have the {gamma} samples they need"
        findings.append(Finding("branches", able > 0, text))
    return findings, counted


def _name(app_folder: Path, site: str) -> Finding:
    names = site_names(str(app_settings(app_folder)["sites"]))
    if site in names:
        return Finding("name", True, f"{site} is a site of the app")
    text = f"{site!r} is no site of the app, which has {', '.join(names)}; give --site NAME"
    return Finding("name", False, text)


def _of_data(prepared: Prepared) -> Iterator[Finding]:
    bad = prepared.data.unreadable
    if bad:
        text = f"{len(bad)} cannot be read and are skipped, first {bad[0]}; replace or remove them"
        yield Finding("images", False, text)
    else:
        yield Finding("images", True, f"all {len(prepared.data)} can be read")
    own = prepared.federation.clients[0].validation
    if own is None or not len(own):
        text = "there are no validation images; add images, or rows with the split validation"
        yield Finding("validation", False, text)
    else:
        yield Finding("validation", True, f"{len(own)} images")


def leaving(
    rounding: int, privacy: Privacy | None = None, policy: Policy | None = None
) -> list[str]:
    """Return what will leave the site, under its policy if it has one."""
    if privacy is not None:
        deviation = privacy.noise_multiplier * privacy.clip
        return [line.format(clip=privacy.clip, deviation=deviation) for line in _LEAVES_PRIVATELY]
    policy = policy or Policy()
    rounding = max(rounding, policy.count_rounding)
    how = f", rounded to multiples of {rounding}" if rounding > 1 else ", exact"
    digits = "" if policy.digits is None else f" with {policy.digits} digits"
    loss = f", and their mean loss{digits}" if policy.losses else ""
    found = [f"the weights of the model after each local training{loss}"]
    found += [_COUNTS.format(rounded=how)] if policy.counts else []
    found += [_SCORES.format(rounded=how, digits=digits)] if policy.scores else []
    found += [_CALIBRATION] if policy.calibrates and rounding == 1 else []
    return [*found, _NAME]


def check_credentials(credentials: SiteCredentials, site: str) -> Iterator[Finding]:
    """Check the key, and that it belongs to the site's name; this needs no server."""
    key = _key(credentials.key)
    yield key
    if key.good:
        yield _identity(credentials, site)


def check_server(server: Server, *, register: bool = True) -> Iterator[Finding]:
    """Check connection and certificate and, with good credentials, that the server knows them."""
    host, _, port = server.address.rpartition(":")
    if not host or not port.isdigit():
        text = f"{server.address!r} is not HOST:PORT; write for example 10.0.0.5:8000"
        yield Finding("connection", False, text)
        return
    if not server.certificate.is_file():
        text = f"{server.certificate}: there is no such file; ask the server for its ca.crt"
        yield Finding("certificate", False, text)
        return
    connection = _connection(host.strip("[]"), int(port), server.certificate)
    yield from connection
    answers = all(finding.good for finding in connection)
    if server.credentials is not None and register and answers:
        yield _registration(server.address, server.credentials)


def _connection(host: str, port: int, certificate: Path) -> list[Finding]:
    through = f" through the proxy {proxy}" if (proxy := proxy_for(host)) else ""
    try:
        plain = reached(host, port, _CONNECT_SECONDS)
    except (OSError, http.client.HTTPException) as error:
        told = getattr(error, "strerror", None) or one_line(error, 200)
        text = (
            f"nothing answers at {host}:{port}{through} ({told}); is the server "
            "started, is the address right, does a firewall let port "
            f"{port} through?"
        )
        return [Finding("connection", False, text)]
    good = Finding("connection", True, f"{host}:{port} answers{through}")
    with plain:
        try:
            context = ssl.create_default_context(cafile=certificate)
            with context.wrap_socket(plain, server_hostname=host) as secure:
                until = (secure.getpeercert() or {}).get("notAfter")
        except ssl.SSLCertVerificationError as error:
            text = (
                f"the server's is not signed by {certificate}, or not for {host} "
                f"({error.verify_message}); take ca.crt from the server, or let it make its "
                "certificate for this name with --host"
            )
            return [good, Finding("certificate", False, text)]
        except (ssl.SSLError, OSError) as error:
            text = f"the server does not speak TLS ({error}); start it as COMMANDS.md says"
            return [good, Finding("certificate", False, text)]
    return [good, Finding("certificate", True, f"trusted, until {until}")]


def _key(path: Path) -> Finding:
    how = HOW_TO_MAKE
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        return Finding("key", False, f"{path}: not a private key that can be read ({error}); {how}")
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return Finding("key", False, f"{path}: not a key on an elliptic curve; {how}")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        text = f"{path}: others on this machine may read it; type: chmod 600 {path}"
        return Finding("key", False, text)
    return Finding("key", True, f"{path} is a private key only you may read")


def _identity(credentials: SiteCredentials, site: str) -> Finding:
    """Check that the site's certificate matches its name, its key and the federation's CA."""
    try:
        credentials.check()
        credentials.context()
        own = x509.load_pem_x509_certificate(credentials.own.read_bytes())
        authority = x509.load_pem_x509_certificate(credentials.authority.read_bytes())
        own.verify_directly_issued_by(authority)
        (name,) = own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (FedgrainError, ValueError, TypeError, InvalidSignature) as error:
        said = str(error) or "it is signed by another authority"
        return Finding(
            "identity", False, f"{credentials.own}: {said}; ask the operator for a new one"
        )
    if name.value != site:
        text = f"{credentials.own} is of {name.value!r}, not {site!r}; a key belongs to one name"
        return Finding("identity", False, text)
    until = own.not_valid_after_utc
    if until < datetime.datetime.now(datetime.UTC):
        text = f"{credentials.own} expired on {until:%Y-%m-%d}; ask for: fedgrain flower renew"
        return Finding("identity", False, text)
    return Finding("identity", True, f"the key belongs to {site}, until {until:%Y-%m-%d}")


def _registration(address: str, credentials: SiteCredentials) -> Finding:
    """Activate the site for a moment: only the server knows who may join."""
    key: Any = load_ssh_private_key(credentials.key.read_bytes(), password=None)
    public = key.public_key()
    version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
    client = FleetHttpClient(
        f"https://{address}",
        interceptors=[version, NodeAuthHttpInterceptor(key, public)],
        verify=credentials.context(),
        timeout=_ANSWER_SECONDS,
    )
    asked = ActivateNodeRequest(
        public_key=public_key_to_bytes(public), heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL
    )
    with client:
        try:
            node = client.ActivateNode(asked)
            client.DeactivateNode(DeactivateNodeRequest(node_id=node.node_id))
        except httpx.HTTPStatusError as error:
            text = (
                f"the server refuses this key (HTTP {error.response.status_code}): ask the "
                "operator for `fedgrain flower add` with your public key, and `fedgrain flower "
                "apply`; if that is done, this site is already running, or was killed a minute ago"
            )
            return Finding("registration", False, text)
        except (httpx.HTTPError, RuntimeError, OSError) as error:
            text = f"joining failed ({one_line(str(error), 200)}); see docs/deploy.md"
            return Finding("registration", False, text)
    return Finding("registration", True, "the server knows this key")
