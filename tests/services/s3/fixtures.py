"""Fixtures for S3: the shared server, and a bucket that the clients of this process find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.s3.server import S3Server, start


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The server all tests of a worker share; use buckets of the test's own."""
    running = start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def s3_bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new bucket, on a server without planned faults which s3fs, pyarrow and processes started now use."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.clear()
    _forget_clients()
    yield s3_server.bucket()
    s3_server.clear()


def _forget_clients() -> None:
    """Fsspec keeps clients, and these keep the address they were made with."""
    import fsspec

    fsspec.get_filesystem_class("s3").clear_instance_cache()
