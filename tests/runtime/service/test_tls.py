"""A service with a certificate, and under other names than its own."""

from __future__ import annotations

import dataclasses
import http.client
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from replicator_runtime.service.serving import check
from replicator_sdk.errors import ConfigError
from tests.runtime.cli.service.served import Served, served
from tests.runtime.service.services import settings_in

NAME = "replicator.example.com"


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that has signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME), x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return _write_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def service(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    options = ("--allowed-host", NAME, "--certificate", str(files[0]), "--certificate-key", str(files[1]))
    with served(tmp_path_factory.mktemp("tls"), *options) as service:
        yield service


@pytest.mark.parametrize(("host", "status"), [(NAME, 200), (f"{NAME}:443", 200), ("other.example.com", 421)])
def test_it_answers_by_tls_under_its_names(service: Served, files: tuple[Path, Path], host: str, status: int) -> None:
    assert service.url.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cafile=str(files[0]))
    port = int(service.url.rpartition(":")[2])
    connection = http.client.HTTPSConnection("localhost", port, context=trusted, timeout=60)
    try:
        connection.request("GET", "/livez", headers={"Host": host})
        response = connection.getresponse()
        assert response.status == status
        assert response.headers["Strict-Transport-Security"]
    finally:
        connection.close()


def test_a_certificate_that_cannot_be_used_is_one_line_of_reason(files: tuple[Path, Path], tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    check(dataclasses.replace(settings, certificate=files[0], certificate_key=files[1]))
    other = tmp_path / "other"
    other.mkdir()
    locked = tmp_path / "locked.pem"
    key = serialization.load_pem_private_key(files[1].read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"hunter2")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    for certificate, of_it in (
        (tmp_path / "none.pem", files[1]),
        (files[0], None),
        (files[0], _write_certificate(other)[1]),
        (files[0], locked),
        (None, files[1]),
    ):
        with pytest.raises(ConfigError) as refused:
            check(dataclasses.replace(settings, certificate=certificate, certificate_key=of_it))
        assert refused.value.code == "RPL-1557"
