"""What every test may ask for."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # as the target bigquery does: before anything imports gRPC

from replicator_runtime.observability.redaction import redactor
from tests.crash import kills
from tests.files_in_memory import keep_files_in_memory

keep_files_in_memory()

# Beside other work an example takes as long as it takes: that is no failure. Other examples are tried at each run.
settings.register_profile(
    "busy machine",
    max_examples=100 if os.environ.get("ALL_CASES") else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy machine")

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
    "tests.depth",
    "tests.quick",
    "tests.unclosed",
]


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command that runs in this process sets up its logging, which later tests are not to have."""
    root = logging.getLogger()
    level, raises = root.level, logging.raiseExceptions
    yield
    if not structlog.is_configured():
        return
    structlog.reset_defaults()
    root.setLevel(level)
    logging.raiseExceptions = raises
    root.handlers[:] = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]


@pytest.fixture(autouse=True)
def _no_secret_of_other_tests() -> Iterator[None]:
    """What a test registers as a secret is not masked in the output of later ones: it may be a part of any text."""
    yield
    redactor().forget()


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
