"""What every test may ask for."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # as the target bigquery does: before anything imports gRPC

from tests.crash import kills

pytest_plugins = [
    "tests.services.postgres.fixtures",
    "tests.services.mysql.fixtures",
    "tests.services.kafka.fixtures",
    "tests.services.bigquery.fixtures",
    "tests.services.s3.fixtures",
    "tests.services.azure.fixtures",
    "tests.services.gcs.fixtures",
    "tests.services.schema_registry.fixtures",
    "tests.services.spark.fixtures",
    "tests.services.network",
    "tests.services.strangers",
    "tests.quick",
    "tests.unclosed",
]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker reports the processes it has killed."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["kills"], output["harms"] = kills.kills, kills.harms


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker has killed."""
    output = getattr(node, "workeroutput", {})
    kills.kills.extend(output.get("kills", ()))
    kills.harms.extend(output.get("harms", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many kills there were."""
    if line := kills.summary():
        terminalreporter.write_line(line)
