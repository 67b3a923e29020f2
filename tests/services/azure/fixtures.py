"""Fixtures for Azure Blob Storage: the shared server, and a container that adlfs in this process finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.azure.server import AzureServer, start


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """The server all tests of a worker share; use containers of the test's own."""
    running = start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def azure_container(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new container, on a server without planned faults which adlfs uses; its first retry comes at once, not after 15 s."""
    import fsspec
    from azure.storage.blob._shared.policies_async import ExponentialRetry

    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ExponentialRetry, "get_backoff_time", lambda self, settings: 0.05)
    azure_server.clear()
    fsspec.get_filesystem_class("abfs").clear_instance_cache()
    yield azure_server.container()
    azure_server.clear()
