"""Fixtures of mode merge-flush."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.plugins.targets.bigquery.merge_flush.support.projects import streaming
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.sql_parser import parse_sql
from tests.services.bigquery.emulators import Emulators


@pytest.fixture
def project(bigquery_emulators: Emulators, tasks_run_here: Callable[[], Any]) -> Iterator[Project]:
    """A dataset of the test's own, written in mode merge-flush; every statement that was run is parsed afterwards."""
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    made = streaming(bigquery_emulators)
    made.spark = tasks_run_here
    yield made
    for sql in {job.sql for job in bigquery_emulators.gate.jobs if job.kind == "query"}:
        parse_sql(sql)
