"""A name belongs to one key: the record, the commands that change it, and who may take part."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from cryptography import x509
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.fab import Fab
from flwr.supernode.start_client_internal import _verify_fab
from yaml import safe_load

from fedgrain.cli import main
from fedgrain.config.config import Config
from fedgrain.deployment.app import App, app_settings
from fedgrain.deployment.certificates import (
    flower_bytes,
    read_public_key,
    serial_of,
    write_key_pair,
)
from fedgrain.deployment.key_record import Member, Record, Roster, refusal
from fedgrain.errors import DeploymentError
from fedgrain.handover.passing import PACKAGE
from fedgrain.membership.init import Deployment, write_deployment
from fedgrain.membership.join import SiteCredentials
from fedgrain.membership.members import add, remove, renew, sign

SITES = ("museum", "zoo")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text("parent,child\nr,a\nr,b\n")
    wanted = Deployment(tmp_path / "federation", SITES, keys=True)
    write_deployment(wanted, Config(dataset="folder"), tmp_path / "tree.csv")
    return tmp_path / "federation"


def record_of(folder: Path) -> Record:
    return Record.read(folder / "federation.json")


def rules(folder: Path) -> str:
    return (folder / "nginx.conf").read_text()


def pair(place: Path) -> Path:
    write_key_pair(place)
    return place.with_name(f"{place.name}.pub")


def verified(folder: Path, site: str = "museum") -> bool:
    """Do what a SuperNode does with an app: Flower's own function, the site's own trusted.yaml."""
    signature = json.loads((folder / "app.sig.json").read_text())
    told = {signature["public_key_id"]: json.dumps(signature), "valid_license": "Valid"}
    trusted = safe_load((folder / "sites" / site / "trusted.yaml").read_text())
    return _verify_fab(Fab("", (folder / "app.fab").read_bytes(), told), trusted)


def test_every_site_has_a_certificate_of_its_name_and_key(folder: Path) -> None:
    for site in SITES:
        place = folder / "sites" / site
        credentials = SiteCredentials.beside(place / site)
        credentials.check()
        assert credentials.context().cert_store_stats()["x509_ca"] == 1
        certificate = x509.load_pem_x509_certificate((place / f"{site}.crt").read_bytes())
        assert certificate.subject.rfc4514_string() == f"CN={site}"
        assert record_of(folder).members[site].serials == (serial_of(certificate),)
        assert f'"{serial_of(certificate)}" "{site}";' in rules(folder)
    mixed = SiteCredentials.beside(
        folder / "sites" / "zoo" / "zoo", own=folder / "sites" / "museum" / "museum.crt"
    )
    with pytest.raises(DeploymentError, match="do not belong together"):
        mixed.context()


def test_sites_trust_the_operators_key_and_no_other_app(folder: Path) -> None:
    assert verified(folder)
    fab = folder / "app.fab"
    signed = fab.read_bytes()
    fab.write_bytes(signed[:-1] + bytes([signed[-1] ^ 1]))
    assert not verified(folder)
    settings = folder / "app" / "pyproject.toml"
    settings.write_text(settings.read_text().replace("wait-seconds = 600", "wait-seconds = 5"))
    sign(folder)
    assert verified(folder) and fab.read_bytes() != signed
    assert app_settings(folder / "app")["wait-seconds"] == 5


def test_an_empty_list_of_trusted_keys_is_refused(folder: Path) -> None:
    # Flower would take it for no list, and run everything
    credentials = SiteCredentials.beside(folder / "sites" / "zoo" / "zoo")
    credentials.trusted.write_text("\n")
    with pytest.raises(DeploymentError, match="names no key"):
        credentials.check()


def test_a_name_has_one_key_and_a_key_one_name(folder: Path, tmp_path: Path) -> None:
    before = record_of(folder)
    with pytest.raises(DeploymentError, match="museum already has a key"):
        add(folder, "museum", pair(tmp_path / "second"))
    with pytest.raises(DeploymentError, match="this is the key of zoo"):
        add(folder, "garden", folder / "sites" / "zoo" / "zoo.pub")
    assert record_of(folder) == before

    after = add(folder, "museum", tmp_path / "second.pub", replace_key=True)
    (old,), (new,) = before.members["museum"].serials, after.members["museum"].serials
    assert new in rules(folder) and old not in rules(folder)
    assert record_of(folder) == after and after.members["zoo"] == before.members["zoo"]


def test_a_new_site_becomes_one_of_the_signed_app(folder: Path, tmp_path: Path) -> None:
    add(folder, "garden", pair(tmp_path / "garden"))
    assert json.loads(app_settings(folder / "app")["sites"]) == ["museum", "zoo", "garden"]
    config = App.read(folder / "app" / PACKAGE).config
    assert (config.clients, config.alpha, config.join_ratio) == (None, None, 1.0)  # real sites
    assert verified(folder, "garden") and "## Site garden" in (folder / "COMMANDS.md").read_text()
    assert not (folder / "sites" / "garden" / "garden").exists()  # its own, never seen here


@pytest.mark.parametrize("name", ["default", "include", "ca", "ca.crt", "a b"])
def test_a_name_that_means_something_else_is_refused(folder: Path, tmp_path: Path, name: str):
    with pytest.raises(DeploymentError, match="write a name of letters"):
        add(folder, name, pair(tmp_path / "some"))


def test_a_site_can_be_removed_without_any_secret(folder: Path) -> None:
    (folder / "operator").rename(folder.with_name("safe"))
    (serial,) = record_of(folder).members["zoo"].serials
    remove(folder, "zoo")
    assert record_of(folder).members["zoo"] == Member() and serial not in rules(folder)
    assert json.loads(app_settings(folder / "app")["sites"]) == list(SITES)  # a run can go on
    with pytest.raises(DeploymentError, match="restore it from"):
        add(folder, "zoo", None)
    with pytest.raises(DeploymentError, match="restore it from"):
        remove(folder, "zoo", forget=True)
    folder.with_name("safe").rename(folder / "operator")
    remove(folder, "zoo", forget=True)
    assert json.loads(app_settings(folder / "app")["sites"]) == ["museum"] and verified(folder)
    with pytest.raises(DeploymentError, match="'zoo' is no site"):
        remove(folder, "zoo")


def test_renewal_keeps_keys_and_the_last_certificate(folder: Path) -> None:
    first = record_of(folder).members["zoo"]
    second = renew(folder).members["zoo"]
    assert second.key == first.key and second.serials[1:] == first.serials
    third = renew(folder).members["zoo"]
    assert third.serials == (third.serials[0], second.serials[0])
    credentials = SiteCredentials.beside(folder / "sites" / "zoo" / "zoo")
    credentials.context()
    old = (credentials.authority.read_bytes(), credentials.trusted.read_bytes())
    fourth = renew(folder, everything=True).members["zoo"]
    assert len(fourth.serials) == 1 and fourth.key == first.key and verified(folder)
    assert old != (credentials.authority.read_bytes(), credentials.trusted.read_bytes())
    secrets = ("operator/ca.key", "operator/signing", "certificates/server.key")
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in secrets} == {0o600}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"sites": 1}', "[" * 5000, '{"sites": {"zoo": {"key": "x", "serials": []}}}'],
)
def test_a_damaged_record_is_one_sentence(folder: Path, text: str) -> None:
    (folder / "federation.json").write_text(text)
    problem = r"federation\.json.*(not JSON|not the record of a federation).*restore it from a copy"
    with pytest.raises(DeploymentError, match=problem):
        record_of(folder)


def test_a_serial_cannot_smuggle_rules(folder: Path) -> None:
    path = folder / "federation.json"
    values = json.loads(path.read_text())
    values["sites"]["zoo"]["serials"] = ['1" "zoo"; } server { listen 1; #']
    path.write_text(json.dumps(values))
    with pytest.raises(DeploymentError, match="not the serial number"):
        record_of(folder)


def test_impostors_are_refused_before_anything_is_sent(folder: Path, tmp_path: Path) -> None:
    keys = {name: flower_bytes(m.key) for name, m in record_of(folder).members.items()}
    second = flower_bytes(pair(tmp_path / "second").read_text().strip())
    nodes = {
        1: NodeInfo(name="museum", public_key=keys["museum"]),
        2: NodeInfo(name="museum", public_key=second),
        3: NodeInfo(name="", public_key=keys["zoo"]),
        4: NodeInfo(name="casino", public_key=second),
        5: NodeInfo(name="zoo", public_key=keys["museum"]),
    }
    roster = Roster(folder / "federation.json")
    reasons = {number: refusal(roster.look(), node) for number, node in nodes.items()}
    assert reasons.pop(1) is None
    assert reasons == {
        2: "its key is not the recorded key of 'museum': an impostor, or an old key",
        3: "its key is registered without a name; a site's name belongs to one key",
        4: "the record has no key of 'casino'; add it with fedgrain flower add",
        5: "its key is not the recorded key of 'zoo': an impostor, or an old key",
    }
    admitted, said = roster.admit(nodes)
    assert list(admitted) == [1] and len(said) == 4
    assert roster.admit(nodes)[1] == []  # told once
    remove(folder, "museum")
    admitted, said = roster.admit(nodes)  # in the middle of a run
    assert admitted == {} and said[0].startswith("museum does not take part: the record has no key")


def test_a_site_makes_its_own_key(tmp_path, capsys):
    """What it sends is a public key that a federation takes; ssh-keygen gives the fingerprint."""
    assert main(["flower", "key", "museum", "--out", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    private, public = Path(told["private"]), Path(told["public"])
    assert private.stat().st_mode & 0o077 == 0 and read_public_key(public)
    if shutil.which("ssh-keygen"):
        listed = subprocess.run(["ssh-keygen", "-l", "-f", public], capture_output=True, text=True)
        assert told["fingerprint"] in listed.stdout
    before = private.read_bytes()
    assert main(["flower", "key", "museum", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err and private.read_bytes() == before
    assert main(["flower", "key", "../zoo", "--out", str(tmp_path)]) == 2
    assert "write a name of letters" in capsys.readouterr().err
