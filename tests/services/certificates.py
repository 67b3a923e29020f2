"""A certificate authority of the tests' own, so that `sslMode: verify-full` meets a certificate it can verify."""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HOUR, _WEEK = dt.timedelta(hours=1), dt.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """Files of a server certificate and of the authority that signed it, all in PEM form."""

    authority: Path
    certificate: Path
    key: Path


def issue(
    folder: Path, *, host_names: tuple[str, ...] = ("localhost",), addresses: tuple[str, ...] = ("127.0.0.1",)
) -> ServerCertificate:
    """Makes a new authority and a certificate for the given names and addresses; files are written into `folder`.

    Two calls make two authorities: a client that trusts one must refuse the other's servers.
    """
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = _name(f"replicator test authority {secrets.token_hex(4)}")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [*map(x509.DNSName, host_names), *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses)]
    certificate = (
        _builder(_name("replicator test server"), authority_name, server_key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    files = ServerCertificate(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    files.key.chmod(0o600)
    return files


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + _WEEK)
    )
