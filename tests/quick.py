"""`pytest --quick`: the tests that start no other process, so no server and no Java either.

No test is marked. Folders of whole runs are not opened. A test whose fixtures, also those that they ask for, are of a server or of Spark is left out when tests are
collected; a test that starts a process in another way is skipped at that moment.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

# Folders whose tests run replicators in processes of their own.
_WHOLE_RUNS = tuple(Path(__file__).parent / name for name in ("crash", "end_to_end", "endurance", "soak"))
# Modules with fixtures of servers and of Spark.
_SERVERS = re.compile(r"tests\.services\.\w+\.fixtures")
# Events of Python's audit hooks that mean a new process.
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--quick", action="store_true", help="run only tests that start no other process")


def pytest_configure(config: pytest.Config) -> None:
    """Watch for processes, if asked."""
    if config.getoption("quick"):
        config.pluginmanager.register(Quick(), "replicator-quick")


class Quick:
    """Leaves out and skips the other tests."""

    def __init__(self) -> None:
        self._in_test = False
        self._started = ""
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: Sequence[Any]) -> None:
        if self._in_test and event in _STARTS:
            self._started = f"starts a process: {' '.join(map(str, arguments[:2]))[:200]}"
            pytest.skip(self._started)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out folders of whole runs."""
        return True if collection_path in _WHOLE_RUNS else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out tests with fixtures of servers."""
        left_out = [item for item in items if needs_server(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not needs_server(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Any:
        """Watch from the first fixture to the last."""
        self._in_test, self._started = True, ""
        try:
            return (yield)
        finally:
            self._in_test = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        """Skip a test that failed because it could not start a process, perhaps in another thread."""
        report: pytest.TestReport = yield
        if report.failed and self._started:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, self._started)
        return report


def needs_server(item: pytest.Item) -> bool:
    """Whether a fixture of the test is of a server or of Spark, or asks for one that is."""
    fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(_SERVERS.fullmatch(fixture.func.__module__) for found in fixtures.values() for fixture in found)
