"""Fixtures for BigQuery: the shared emulators, which are started again where one ended by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.services.bigquery.emulators import Emulators, start

_FIXTURE = "bigquery_emulators"


class _Running:
    """The emulators of this worker."""

    def __init__(self) -> None:
        self._emulators: Emulators | None = None

    def get(self) -> Emulators:
        """They, both running."""
        if self._emulators is None or self._emulators.ended():
            self.stop()
            self._emulators = start()
        return self._emulators

    def ended(self) -> str:
        """What one that ended wrote last; empty while both run or none was asked for."""
        return self._emulators.ended() if self._emulators is not None else ""

    def stop(self) -> None:
        """End both."""
        if self._emulators is not None:
            self._emulators.stop()
        self._emulators = None


_running = _Running()


@pytest.fixture(scope="session")
def _emulators_of_this_worker() -> Iterator[_Running]:
    yield _running
    _running.stop()


@pytest.fixture
def bigquery_emulators(_emulators_of_this_worker: _Running) -> Emulators:
    """The emulators all tests of a worker share; use datasets of the test's own."""
    return _emulators_of_this_worker.get()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Try a test once more during which an emulator ended: they are not what is tested, and once in some runs one crashes."""
    if _FIXTURE not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports) and (last_words := _running.ended()):
        item.warn(pytest.PytestWarning(f"tried once more, since an emulator ended: {last_words}"))
        renewed: Any = item
        renewed._initrequest()  # its fixtures are made again, as pytest-rerunfailures has it
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
