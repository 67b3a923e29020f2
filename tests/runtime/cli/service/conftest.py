from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.cli.service.scripted import Scripted, scripted_service


@pytest.fixture(autouse=True)
def no_service_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REPLICATOR_SERVER", "REPLICATOR_TOKEN", "REPLICATOR_STORE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def service() -> Iterator[Scripted]:
    with scripted_service() as script:
        yield script
