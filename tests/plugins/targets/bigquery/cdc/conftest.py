"""A dataset in mode `cdc`, on the emulators and a server that behaves as BigQuery's change data capture is documented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.sql_parser import parse_sql
from tests.services.bigquery.emulators import Emulators

_MUTATING = re.compile(r"(UPDATE|DELETE FROM|MERGE|TRUNCATE TABLE) `[^`]*\.(?!_)[^`.]+`")


@pytest.fixture
def project(bigquery_emulators: Emulators, tasks_run_here: Callable[[], Any]) -> Iterator[Project]:
    """A dataset of the test's own; afterwards every statement is parsed, and none may have been one that BigQuery refuses
    beside change data capture.
    """
    bigquery_emulators.gate.clear()
    bigquery_emulators.streaming.clear()
    made = streaming(bigquery_emulators)
    made.spark = tasks_run_here
    yield made
    for sql in {job.sql for job in bigquery_emulators.gate.jobs if job.kind == "query"}:
        parse_sql(sql)
        assert not _MUTATING.search(sql), sql


def streaming(emulators: Emulators, **settings: object) -> Project:
    """A dataset in mode `cdc`."""
    return Project(emulators, **{"mode": "cdc", "storage_write_endpoint": emulators.streaming.endpoint, **settings})
