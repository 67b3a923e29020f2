"""Fixtures for Cloud Storage: the shared server, and a bucket that gcsfs in this process finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.gcs.server import GcsServer, start


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """The server all tests of a worker share; use buckets of the test's own."""
    running = start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def gcs_bucket(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new bucket, on a server without planned faults which gcsfs and processes started now use."""
    import fsspec

    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    gcs_server.clear()
    monkeypatch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
    fsspec.get_filesystem_class("gs").clear_instance_cache()
    yield gcs_server.bucket()
    gcs_server.clear()
