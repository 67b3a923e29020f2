"""A fixture for schema registries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.schema_registry.apicurio import ApicurioRegistry


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[ApicurioRegistry]:
    """The schema registry all tests share (Apicurio's, with Confluent's interface beside its own)."""
    registry = ApicurioRegistry()
    try:
        yield registry.start()
    finally:
        registry.remove()
