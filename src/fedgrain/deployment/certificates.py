"""A federation's certificate authority, the certificates it signs, and key pairs."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedgrain.errors import DeploymentError
from fedgrain.files import written_whole

_AUTHORITY_DAYS, _SERVER_DAYS = 3650, 825
PEM = serialization.Encoding.PEM
HOW_TO_MAKE = "make one with: fedgrain flower key NAME"


@dataclass(frozen=True)
class Authority:
    """Signs the server's certificate; it is the only authority that sites trust."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_authority() -> Authority:
    """Return a new authority for this federation."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("fedgrain federation CA")
    builder = (
        _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return Authority(builder.sign(key, hashes.SHA256()), key)


def _make_server_certificate(
    authority: Authority, hosts: Sequence[str]
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return a certificate for all names and addresses under which sites reach the server."""
    key = ec.generate_private_key(ec.SECP384R1())
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    builder = _leaf(authority, "fedgrain server", key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH)
    builder = builder.add_extension(names, critical=False)
    return builder.sign(authority.key, hashes.SHA256()), key


def make_site_certificate(
    authority: Authority, site: str, public: ec.EllipticCurvePublicKey
) -> x509.Certificate:
    """Return the certificate that binds a site's name to its key; it opens the gate."""
    builder = _leaf(authority, site, public, ExtendedKeyUsageOID.CLIENT_AUTH)
    return builder.sign(authority.key, hashes.SHA256())


def serial_of(certificate: x509.Certificate) -> str:
    """Return the serial number as nginx writes it (``$ssl_client_serial``)."""
    digits = f"{certificate.serial_number:X}"
    return digits.zfill(len(digits) + len(digits) % 2)


def write_certificates(folder: Path, hosts: Sequence[str], secrets: Path | None = None) -> None:
    """Write ca.crt, server.crt and server.key, and ca.key into ``secrets`` or ``folder``."""
    write_authority(make_authority(), folder, secrets or folder)
    write_server_certificate(folder, hosts, secrets or folder)


def write_authority(authority: Authority, folder: Path, secrets: Path) -> None:
    """Write the authority's certificate, and its key, which only its owner may read."""
    key = _private(authority.key, serialization.PrivateFormat.PKCS8)
    write_file(secrets / "ca.key", key, private=True)
    write_file(folder / "ca.crt", authority.certificate.public_bytes(PEM))


def read_authority(folder: Path, secrets: Path) -> Authority:
    """Read what :func:`write_authority` wrote."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
        key = serialization.load_pem_private_key((secrets / "ca.key").read_bytes(), None)
    except FileNotFoundError as error:
        raise DeploymentError(
            f"{error.filename}: there is no such file, but certificates are signed with it; "
            "restore it from where you keep the operator's secrets"
        ) from error
    except ValueError as error:
        raise DeploymentError(f"{secrets / 'ca.key'} or ca.crt cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DeploymentError(f"{secrets / 'ca.key'}: not a key of fedgrain flower init")
    return Authority(certificate, key)


def write_server_certificate(folder: Path, hosts: Sequence[str], secrets: Path) -> None:
    """Write a new certificate of the server and its key."""
    certificate, key = _make_server_certificate(read_authority(folder, secrets), hosts)
    write_file(
        folder / "server.key", _private(key, serialization.PrivateFormat.PKCS8), private=True
    )
    write_file(folder / "server.crt", certificate.public_bytes(PEM))


def write_key_pair(path: Path) -> None:
    """Write a site's key pair as ``ssh-keygen -t ecdsa -b 384`` does: NAME and NAME.pub."""
    _write_pair(path, ec.generate_private_key(ec.SECP384R1()))


def write_signing_key(path: Path) -> None:
    """Write the operator's key pair, which signs apps, as ``ssh-keygen -t ed25519`` does."""
    _write_pair(path, ed25519.Ed25519PrivateKey.generate())


def read_public_key(path: Path) -> tuple[str, ec.EllipticCurvePublicKey]:
    """Read a site's NAME.pub; return its one line without the comment, and the key."""
    try:
        line = b" ".join(path.read_bytes().split()[:2])
        key = serialization.load_ssh_public_key(line)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise DeploymentError(
            f"{path}: not a public key that can be read ({error}); give the NAME.pub of "
            "fedgrain flower key NAME"
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise DeploymentError(f"{path}: not a key on an elliptic curve; {HOW_TO_MAKE}")
    return line.decode("ascii"), key


def flower_bytes(public_key: str) -> bytes:
    """Return a public key, one line of OpenSSH, as Flower's nodes send and keep it."""
    key = serialization.load_ssh_public_key(public_key.encode("ascii"))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(PEM, form)


def _write_pair(path: Path, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> None:
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_file(path, _private(key, serialization.PrivateFormat.OpenSSH), private=True)
    write_file(path.with_name(f"{path.name}.pub"), public + b"\n")


def _leaf(
    authority: Authority, name: str, public: ec.EllipticCurvePublicKey, use: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    issuer = authority.certificate
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return (
        _builder(_name(name), issuer.subject, public, _SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        .add_extension(signer, critical=False)
    )


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


def _private(
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, form: serialization.PrivateFormat
) -> bytes:
    return key.private_bytes(PEM, form, serialization.NoEncryption())


def write_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file whole; a private one is readable only by its owner from the first byte."""
    with written_whole(path, 0o600 if private else 0o644) as aside:
        aside.write_bytes(content)


def fingerprint(path: Path) -> str:
    """Return the fingerprint of a public key, as ``ssh-keygen -l`` prints it."""
    blob = base64.b64decode(read_public_key(path)[0].split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
