"""Fixtures of the BigQuery target's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.failpoint import arm
from replicator_target_bigquery.load import snapshot_load as snapshot
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.sql_parser import parse_sql
from tests.services.bigquery.emulators import Emulators

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """No place is left armed for the next test."""
    yield
    arm("")


@pytest.fixture
def spark_on_demand(request: pytest.FixtureRequest) -> Callable[[], SparkSession]:
    """The shared session, started by the first who asks for it."""

    def session() -> Any:
        return request.getfixturevalue("spark")

    return session


@pytest.fixture
def tasks_run_here(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """In the place of Spark: what executors would do is done here, one task after the other. Only mode batch uses them."""

    def run(spark: None, work: Callable[[Any], Any], tasks: Sequence[Any], is_stopping: object = None) -> list[Any]:
        return [work(task) for task in tasks]

    monkeypatch.setattr(snapshot, "run_on_executors", run)
    return lambda: None


@pytest.fixture
def project(bigquery_emulators: Emulators, spark_on_demand: Callable[[], SparkSession]) -> Iterator[Project]:
    """A dataset of the test's own, with the settings of the tests; every statement that was run is parsed afterwards."""
    bigquery_emulators.gate.clear()
    made = Project(bigquery_emulators)
    made.spark = spark_on_demand
    yield made
    for sql in {job.sql for job in bigquery_emulators.gate.jobs if job.kind == "query"}:
        parse_sql(sql)
