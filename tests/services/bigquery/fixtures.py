"""Fixtures for BigQuery: the shared emulators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.bigquery.emulators import Emulators, start


@pytest.fixture(scope="session")
def bigquery_emulators() -> Iterator[Emulators]:
    """The emulators all tests of a worker share; use datasets of the test's own."""
    running = start()
    try:
        yield running
    finally:
        running.stop()
