"""``fedgrain flower add``, ``remove``, ``renew`` and ``sign``: the sites and their keys.

They change files; ``fedgrain flower apply`` updates a running server.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedgrain.deployment.app import App, app_settings, write_app
from fedgrain.deployment.certificates import (
    PEM,
    Authority,
    make_authority,
    make_site_certificate,
    read_authority,
    read_public_key,
    serial_of,
    write_authority,
    write_file,
    write_key_pair,
    write_server_certificate,
    write_signing_key,
)
from fedgrain.deployment.key_record import FILE, Member, Record
from fedgrain.deployment.server_settings import Operation
from fedgrain.errors import DeploymentError
from fedgrain.files import write_text
from fedgrain.handover.passing import PACKAGE
from fedgrain.membership.commands import Typed
from fedgrain.membership.gate import FILE as GATE
from fedgrain.membership.gate import STATE, gate_config
from fedgrain.membership.signing import hub_answer, sign_app, trusted

KEPT = 2  # certificates of one key that open the gate: the newest, and the one before


def signing_key(folder: Path) -> Path:
    """Return the path of the operator's key, which signs the app."""
    return folder / "operator" / "signing"


def found(folder: Path, record: Record, *, keys: bool) -> Record:
    """Write all secrets of a new federation and, with ``keys``, each site's folder."""
    write_authority(make_authority(), folder / "certificates", folder / "operator")
    write_server_certificate(folder / "certificates", record.hosts, folder / "operator")
    write_signing_key(signing_key(folder))
    (folder / "sites").mkdir()
    for site in record.members if keys else ():
        write_key_pair(folder / "sites" / site / site)
        record = _with_key(folder, record, site, folder / "sites" / site / f"{site}.pub")
    return record


def publish(folder: Path, record: Record, place: Path | None = None) -> None:
    """Write the record, the gate's rules and COMMANDS.md; ``place`` is where it all will be."""
    settings = app_settings(folder / "app")
    app = App.read(folder / "app" / PACKAGE)
    private = Operation.of(settings).privacy is not None
    code = tuple(sorted(app.config.code()))
    typed = Typed((place or folder).absolute(), record, app.taxonomy is not None, private, code)
    (folder / STATE).mkdir(exist_ok=True)
    write_text(folder / GATE, gate_config(record, hub_answer(folder, record.hub_port)))
    write_text(folder / "COMMANDS.md", typed.text())
    record.write(folder / FILE)


def add(folder: Path, site: str, key: Path | None, *, replace_key: bool = False) -> Record:
    """Record a site's key, or make one; a new name becomes a site of the app."""
    record = Record.read(folder / FILE)
    known = record.members.get(site)
    given = read_public_key(key)[0] if key is not None else None
    if known is not None and known.key and given != known.key and not replace_key:
        raise DeploymentError(f"{site} already has a key; to replace it, add --replace")
    record = replace(record, members={**record.members, site: known or Member()})  # checked
    read_authority(folder / "certificates", folder / "operator")
    if key is None:
        key = folder / "sites" / site / f"{site}.pub"
        write_key_pair(key.with_suffix(""))
    record = _with_key(folder, record, site, key)
    if known is None:
        _set_sites(folder, list(record.members))
    publish(folder, record)
    return record


def remove(folder: Path, site: str, *, forget: bool = False) -> Record:
    """Remove a site's key; with ``forget``, also remove its name from the app."""
    record = Record.read(folder / FILE)
    if site not in record.members:
        known = ", ".join(record.members)
        raise DeploymentError(f"{site!r} is no site of {folder}; it has {known}")
    members = {name: m for name, m in record.members.items() if name != site}
    if forget:
        if not members:
            raise DeploymentError(f"{site} is the only site; a federation needs one")
        _set_sites(folder, list(members))
    else:
        members = {name: members.get(name, Member()) for name in record.members}
    record = replace(record, members=members)
    publish(folder, record)
    shutil.rmtree(folder / "sites" / site, ignore_errors=True)
    return record


def renew(folder: Path, *, everything: bool = False) -> Record:
    """Sign new certificates for the server and the sites' keys.

    ``everything`` also makes a new authority and a new signing key: everything handed out before
    becomes invalid.
    """
    record = Record.read(folder / FILE)
    certificates, operator = folder / "certificates", folder / "operator"
    if everything:
        write_authority(make_authority(), certificates, operator)
        write_signing_key(signing_key(folder))
        sign_app(folder, signing_key(folder))
        cleared = {name: replace(member, serials=()) for name, member in record.members.items()}
        record = replace(record, members=cleared)
    write_server_certificate(certificates, record.hosts, operator)
    for site, member in record.members.items():
        if member.key:
            record = _certified(folder, record, site, member)
    publish(folder, record)
    return record


def sign(folder: Path) -> Record:
    """Pack and sign the app as it is now."""
    record = Record.read(folder / FILE)
    sign_app(folder, signing_key(folder))
    publish(folder, record)
    return record


def _with_key(folder: Path, record: Record, site: str, key: Path) -> Record:
    line, _ = read_public_key(key)
    for name, member in record.members.items():
        if name != site and member.key == line:
            raise DeploymentError(f"{key}: this is the key of {name}; every site needs its own")
    before = record.members[site]
    return _certified(folder, record, site, before if before.key == line else Member(line))


def _certified(folder: Path, record: Record, site: str, member: Member) -> Record:
    """Sign a new certificate and write everything a site needs into its folder."""
    authority: Authority = read_authority(folder / "certificates", folder / "operator")
    place = folder / "sites" / site
    write_file(place / f"{site}.pub", f"{member.key}\n".encode())
    _, public = read_public_key(place / f"{site}.pub")
    certificate = make_site_certificate(authority, site, public)
    write_file(place / f"{site}.crt", certificate.public_bytes(PEM))
    write_file(place / "ca.crt", authority.certificate.public_bytes(PEM))
    write_text(place / "trusted.yaml", trusted(signing_key(folder)))
    serials = (serial_of(certificate), *member.serials)[:KEPT]
    members: Mapping[str, Member] = {**record.members, site: Member(member.key, serials)}
    return replace(record, members=members)


def _set_sites(folder: Path, sites: list[str]) -> None:
    """Write and sign the app for other sites."""
    if not signing_key(folder).is_file():
        raise DeploymentError(
            f"{signing_key(folder)}: there is no such file, but the app is signed with it; "
            "restore it from where you keep the operator's secrets"
        )
    app = App.read(folder / "app" / PACKAGE)
    operation = Operation.of(app_settings(folder / "app"))
    config = replace(app.config, clients=len(sites)).complete()
    write_app(folder / "app", replace(app, config=config), replace(operation, sites=sites))
    sign_app(folder, signing_key(folder))
