"""A dataset for each test in a real project; `make test-bigquery PROJECT=… BUCKET=…` runs what is here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from replicator_target_bigquery import BigQueryTarget
from replicator_target_bigquery.config import BigQueryConfig
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.real_service import WANTED, Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without a project there is nothing to collect; a skipped test would say that something is missing.
collect_ignore_glob = [] if WANTED else ["test_*.py"]


class RealProject(Project):
    """A target with a dataset of its own there."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.dataset = f"{service.prefix}{uuid.uuid4().hex[:12]}"
        self.config = BigQueryConfig(**service.settings(self.dataset))
        self.target = BigQueryTarget(self.config)

    def select(self, sql: str) -> list[list[Any]]:
        """The rows of a query; `{d}` is replaced by the dataset."""
        return self.service.rows(sql.replace("{d}", f"`{self.service.project}`.`{self.dataset}`"))


@pytest.fixture
def project(spark_on_demand: Callable[[], SparkSession]) -> Iterator[RealProject]:
    """The dataset is removed with all that the test left in it and in the bucket."""
    made = RealProject(Service.of_environment())
    made.spark = spark_on_demand
    made.service.make(made.dataset)
    try:
        yield made
    finally:
        made.service.remove(made.dataset)
