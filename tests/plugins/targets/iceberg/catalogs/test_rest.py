"""A REST catalog: Iceberg's own reference server. The same promises as with the other catalogs, read back by `pyiceberg` through the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from tests.plugins.targets.changes import KEYED, TABLE, alter, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg import test_commits
from tests.plugins.targets.iceberg.arrangement.placement import check_placement
from tests.plugins.targets.iceberg.test_tables import by_id
from tests.plugins.targets.iceberg.warehouse import Warehouse
from tests.services.iceberg_rest.catalog import RestCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory, iceberg_spark: SparkSession) -> Iterator[RestCatalog]:
    with RestCatalog(iceberg_spark, tmp_path_factory.mktemp("rest")) as catalog:
        yield catalog


@pytest.fixture
def lake(tmp_path: Path, iceberg_spark: SparkSession, rest: RestCatalog) -> Iterator[Warehouse]:
    made = Warehouse(
        tmp_path / "lake",
        iceberg_spark,
        "rest",
        uri=rest.uri,
        dropTables="drop",
        formatVersion=3,
        partitioning={"*": ["truncate(1000, id)"]},
        sortOrder={"*": ["name desc"]},
    )
    yield made
    consumer = made.consumer(epoch=9)
    consumer.delete_table(TABLE)
    consumer.stop()


def test_rows_columns_maintenance_and_drops_go_through_the_server(lake: Warehouse) -> None:
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert(row(2 * number, f"n{number}")), insert(row(2 * number + 1))]))
    more = TableSchema(TABLE, (*KEYED.columns, Column("x", STRING)), ("id",))
    consumer.apply_ddl(alter(10, more, Alter(AlterKind.ADD_COLUMN, Column("x", STRING), default="d")))
    consumer.apply_batch(batch(11, [update({"id": 4, "name": "new"}, more), delete({"id": 5}, more)]))
    assert len(by_id(lake)) == 17
    assert by_id(lake)[4] == {"id": 4, "name": "new", "note": None, "x": "d"}
    assert lake.maintain(TABLE, "compact").has_changed
    check_placement(lake.table(TABLE))
    assert len(by_id(lake)) == 17
    assert by_id(lake)[4] == {"id": 4, "name": "new", "note": None, "x": "d"}
    consumer.apply_ddl(ddl(12, DDLOperation.DROP_TABLE, None))
    assert consumer.progress(TABLE) is None
    consumer.stop()


def test_a_run_that_was_replaced_cannot_publish(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    test_commits.test_a_run_that_was_replaced_cannot_publish_what_it_has_made(lake, monkeypatch)


def test_a_run_that_was_replaced_cannot_create(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    test_commits.test_two_runs_that_create_a_table_at_once_make_one(lake, monkeypatch)


def test_a_commit_whose_answer_is_lost_is_found(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    test_commits.test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(lake, monkeypatch)
