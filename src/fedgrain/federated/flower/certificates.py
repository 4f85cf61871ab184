"""A certificate authority for one federation, its server's certificate, the sites' key pairs."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedgrain.files import written_whole

AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Authority:
    """Signs the server's certificate; sites trust it alone."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_authority() -> Authority:
    """Return a new authority of this federation's own."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("fedgrain federation CA")
    builder = (
        _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return Authority(builder.sign(key, hashes.SHA256()), key)


def make_server_certificate(
    authority: Authority, hosts: Sequence[str]
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate for all names and addresses under which sites reach the server."""
    key = ec.generate_private_key(ec.SECP384R1())
    issuer = authority.certificate
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = (
        _builder(_name("fedgrain server"), issuer.subject, key.public_key(), SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(signer, critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
    )
    return builder.sign(authority.key, hashes.SHA256()), key


def write_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """Write ca.crt, ca.key, server.crt and server.key; the keys only their owner may read."""
    authority = make_authority()
    certificate, key = make_server_certificate(authority, hosts)
    for name, content, private in (
        ("ca.crt", authority.certificate.public_bytes(PEM), False),
        ("ca.key", _private(authority.key, serialization.PrivateFormat.PKCS8), True),
        ("server.crt", certificate.public_bytes(PEM), False),
        ("server.key", _private(key, serialization.PrivateFormat.PKCS8), True),
    ):
        _write(folder / name, content, private)


def write_key_pair(path: Path) -> None:
    """Write a site's key pair as ``ssh-keygen -t ecdsa -b 384`` does: NAME and NAME.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    _write(path, _private(key, serialization.PrivateFormat.OpenSSH), private=True)
    _write(path.with_name(f"{path.name}.pub"), public + b"\n", private=False)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)  # clocks differ
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(PEM, form, serialization.NoEncryption())


def _write(path: Path, content: bytes, private: bool) -> None:
    with written_whole(path) as aside:
        mode = 0o600 if private else 0o644
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
