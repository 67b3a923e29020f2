"""A bootstrap server that is no broker, or not of the protocol in the settings, is an error that says so, within seconds."""

from __future__ import annotations

import time
from typing import Any

import pytest

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_source_kafka import KafkaConfig, KafkaSource
from tests.services.strangers import Stranger


def error_of(port: int, **kafka: Any) -> ReplicatorError:
    """What the source raises, soon."""
    settings = {"bootstrapServers": f"127.0.0.1:{port}", "topics": ["orders"], "kafka": kafka}
    since = time.monotonic()
    with pytest.raises(ReplicatorError) as caught:
        KafkaSource(KafkaConfig.model_validate(settings)).latest_offset()
    assert time.monotonic() - since < 100
    return caught.value


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_web_server_needs_the_user(stranger: Stranger, protocol: str) -> None:
    error = error_of(stranger("http"), **{"security.protocol": protocol})
    assert (type(error), error.code) == (NeedsUserError, "RPL-3975")
    assert "security.protocol" in error.hint


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_server_that_never_answers_is_retried(stranger: Stranger, protocol: str) -> None:
    error = error_of(stranger("silent"), **{"security.protocol": protocol, "request.timeout.ms": 2000})
    assert (type(error), error.code) == (RetryableError, "RPL-3967")
    assert "security.protocol" in error.hint
