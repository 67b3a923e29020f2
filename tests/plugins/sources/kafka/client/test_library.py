"""The check of kafka-python, of which private names are used."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_source_kafka import KafkaConfig, KafkaSource
from replicator_source_kafka.client import library


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    library.check_library.cache_clear()
    yield
    library.check_library.cache_clear()


def test_the_installed_version_has_all_names() -> None:
    library.check_library()


@pytest.mark.parametrize("version", ["2.3.0", "3.1.0", "30.0.1"])
def test_another_version_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: version)
    with pytest.raises(NeedsUserError, match=rf"RPL-3960.*{version}.*pip install 'kafka-python==3\.0\.\*'"):
        library.check_library()


def test_a_missing_private_name_is_reported_when_a_pipeline_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.net.manager import KafkaConnectionManager

    from replicator_source_kafka.client.fail_fast import fail_fast_connections

    fail_fast_connections.cache_clear()
    monkeypatch.delattr(KafkaConnectionManager, "_build_transport")
    config = KafkaConfig.model_validate({"bootstrapServers": "127.0.0.1:1", "topics": ["orders"]})
    with pytest.raises(NeedsUserError, match=r"RPL-3960.*without KafkaConnectionManager\._build_transport"):
        KafkaSource(config).latest_offset()


def test_other_parameters_of_a_private_method_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.net.transport import KafkaTCPTransport

    def receive(self: object, size: int) -> bytes:
        return b""

    monkeypatch.setattr(KafkaTCPTransport, "_sock_recv", receive)
    with pytest.raises(NeedsUserError, match=r"RPL-3960.*the parameters of KafkaTCPTransport\._sock_recv"):
        library.check_library()
