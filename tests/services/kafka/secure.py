"""Brokers that listen with TLS and passwords beside their usual listener."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

from tests.services.certificates import ServerCertificate, issue
from tests.services.kafka.broker import KafkaBroker
from tests.services.processes import LOOPBACK, free_port

USER: Final = "reader"
PASSWORD: Final = "a reader's pass;word"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES: Final = {
    "plain": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}"',
    "scram-sha-256": "scram.ScramLoginModule required",
    "scram-sha-512": "scram.ScramLoginModule required",
}


class SecureKafkaBroker(KafkaBroker):
    """A broker with three ways in: without anything (for the tests themselves), with TLS, and with TLS and a login.

    Attributes:
        certificate: its certificate, and the authority to trust.
        tls_port: where TLS is enough.
        login_port: where `USER` has to log in, too.
    """

    def __init__(self, folder: Path) -> None:
        """Makes certificates in `folder`, and the data folder; the broker is not started yet."""
        self.certificate: ServerCertificate = issue(folder)
        self._keystore = folder / "keystore.pem"
        self._keystore.write_text(self.certificate.key.read_text() + self.certificate.certificate.read_text())
        super().__init__()

    def _listeners(self) -> dict[str, object]:
        usual = super()._listeners()
        self.tls_port, self.login_port = free_port(), free_port()
        more = f"SSL://{LOOPBACK}:{self.tls_port},SASL_SSL://{LOOPBACK}:{self.login_port}"
        modules = {
            f"listener.name.sasl_ssl.{name}.sasl.jaas.config": f"org.apache.kafka.common.security.{module};"
            for name, module in _MODULES.items()
        }
        return {
            **usual,
            "listeners": f"{usual['listeners']},{more}",
            "advertised.listeners": f"{usual['advertised.listeners']},{more}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._keystore,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **modules,
        }

    def add_user(self) -> None:
        """Gives `USER` a password for the mechanisms that keep theirs in the cluster."""
        with self.admin() as admin:
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                wanted = UserScramCredentialUpsertion(USER, mechanism, PASSWORD, iterations=4096)
                assert admin.alter_user_scram_credentials([wanted]) == {USER: None}
