"""Reading beside the run that writes: one moment, in the form that the source's rows are compared in."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.verification.checksums import bucket_sums, differing_keys, hashed
from replicator_sdk.datatype import (
    BINARY,
    BOOL,
    DATE,
    FLOAT32,
    FLOAT64,
    INSTANT,
    INT16,
    INT64,
    JSON,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Record,
)
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.snapshot import SnapshotChunk, chunk_dataframe
from replicator_target_bigquery.config import Arrays
from replicator_target_bigquery.reading.table_reader import BigQueryTableReader
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.snapshot_rows import SnapshotRows
from tests.services.bigquery.write_gate import Loss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_sdk.target import TableVersion

TYPES = TableSchema(
    TableId("shop", "types"),
    (
        Column("id", INT64),
        Column("a b", STRING),
        Column("flag", BOOL),
        Column("small", INT16),
        Column("single", FLOAT32),
        Column("ratio", FLOAT64),
        Column("bytes", BINARY),
        Column("at", TIME),
        Column("naive", TIMESTAMP),
        Column("instant", INSTANT),
        Column("day", DATE),
        Column("money", Decimal(12, 2)),
        Column("wide", Decimal(28, 9)),
        Column("document", JSON),
        Column("tags", Array(STRING)),
        Column("times", Array(TIME)),
        Column("nested", Record((("At x", TIME), ("lists", Array(INT64))))),
    ),
    ("id",),
)
_TIME = dt.time(23, 59, 59, 5)
_OLD = dt.datetime(1582, 10, 10, 0, 0, 0, 1)
VALUES: list[tuple[Any, ...]] = [
    (1, "x ", True, -1, 0.1, -0.0, b"\x00\xff", _TIME, _OLD, _OLD.replace(tzinfo=dt.UTC), dt.date(1, 1, 1),
     decimal.Decimal("-0.01"), decimal.Decimal("1e-9"), '{"a": 1.0}', ["a", None, ""], [_TIME, None],
     {"At x": _TIME, "lists": [1, None]}),
    (2, *[None] * 16),
    (3, "", False, 7, 1.5, float("nan"), b"", dt.time(0), dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
     dt.datetime(1900, 1, 1, tzinfo=dt.UTC), dt.date(1582, 10, 10), decimal.Decimal("9999999999.99"), decimal.Decimal(10) ** 18,
     "[]", [], [], {"At x": None, "lists": None}),
]  # fmt: skip
WHOLE = [SnapshotChunk(0, {})]


def reader(project: Project, name: str = "conformance") -> BigQueryTableReader:
    return BigQueryTableReader(project.config, project.context(epoch=0, name=name))


def load(project: Project, schema: TableSchema = KEYED, *changes: Any) -> None:
    consumer = project.consumer()
    consumer.begin_snapshot(schema, "plan", at(1))
    consumer.finish_snapshot(schema, "plan", at(1))
    if changes:
        consumer.apply_batch(batch(5, changes))
    consumer.stop()


def apply(project: Project, position: int, *changes: Any) -> None:
    consumer = project.consumer()
    consumer.apply_batch(batch(position, changes))
    consumer.stop()


def names(version: TableVersion) -> dict[int, tuple[str, int]]:
    return {found[0]: (found[1], found[-1]) for found in version.rows.collect()}


def test_rows_of_all_types_have_the_hashes_of_the_source(project: Project, spark: SparkSession) -> None:
    consumer = project.consumer()
    consumer.load_whole(TYPES, "plan", at(1), WHOLE, SnapshotRows(TYPES, VALUES), lambda: None)
    consumer.stop()
    version = reader(project).open(TYPES)
    source = hashed(chunk_dataframe(spark, TYPES, WHOLE, SnapshotRows(TYPES, VALUES), version.form), TYPES)
    target = hashed(version.rows, TYPES)
    assert len(differing_keys(source, target, keyed=True, at_most=10)) == 0
    assert bucket_sums(source).differing(bucket_sums(target)) == []
    assert bucket_sums(target).rows == len(VALUES)


def test_a_connection_that_breaks_doubles_and_loses_no_rows(project: Project) -> None:
    load(project, KEYED, insert(row(1, "a")), insert(row(2, "b")))
    gate = project.emulators.write_gate
    gate.plan("ReadRows", Loss.CALL, Loss.ANSWER)
    found = [key for key, *_ in reader(project).open(KEYED).rows.collect()]
    assert (sorted(found), gate.pending) == ([1, 2], 0)


def test_a_moment_stays_as_it_is_and_rows_say_whether_they_were_written_again(project: Project) -> None:
    load(project, KEYED, insert(row(1, "a")), insert(row(2, "b")), insert(row(3, "c")))
    opened = reader(project)
    first = opened.open(KEYED)
    apply(project, 6, update(row(2, "b")), delete(row(3, "c")))
    second = opened.open(KEYED)
    assert (str(first.progress.position), str(second.progress.position)) == (str(at(5)), str(at(6)))
    before, after = names(first), names(second)
    assert {key: name for key, (name, _) in before.items()} == {1: "a", 2: "b", 3: "c"}
    assert {key: name for key, (name, _) in after.items()} == {1: "a", 2: "b"}
    assert before[1] == after[1]
    assert before[2] != after[2]
    assert names(first) == before, "read twice"


def test_a_table_that_is_written_while_it_is_opened_is_opened_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(project, KEYED, insert(row(1, "a")))
    opened, positions = reader(project), iter(range(6, 20))
    found, most = opened._session, 1

    def session(*arguments: Any) -> Any:
        nonlocal most
        made = found(*arguments)
        if most:
            most -= 1
            apply(project, next(positions), update(row(1, "b")))
        return made

    monkeypatch.setattr(opened, "_session", session)
    version = opened.open(KEYED)
    assert (str(version.progress.position), names(version)[1][0]) == (str(at(6)), "b")
    most = 5
    with pytest.raises(RetryableError) as raised:
        opened.open(KEYED)
    assert raised.value.code == "RPL-6573"


def test_rows_that_are_marked_as_deleted_are_left_out(project: Project) -> None:
    project.config = project.config.model_copy(update={"soft_deletes": True})
    project.target.config = project.config
    load(project, KEYED, insert(row(1, "a")), insert(row(2, "b")))
    apply(project, 6, delete(row(2, "b")))
    assert project.count("customers") == 2
    assert list(names(reader(project).open(KEYED))) == [1]


def test_it_reads_beside_a_newer_run_and_claims_no_table(project: Project) -> None:
    load(project, KEYED, insert(row(1, "a")))
    writing = project.consumer(epoch=7)
    writing.apply_batch(batch(6, [insert(row(2, "b"))], epoch=7))
    commits = project.count("_replicator_commits")
    found = reader(project).progress(TABLE)
    assert found is not None
    assert found.epoch == 7
    assert len(names(reader(project).open(KEYED))) == 2
    assert project.count("_replicator_commits") == commits
    writing.apply_batch(batch(8, [insert(row(3, "c"))], epoch=7))
    writing.stop()


def test_a_table_that_is_missing_foreign_or_otherwise_built_is_refused(project: Project) -> None:
    assert reader(project).progress(TABLE) is None
    with pytest.raises(NeedsUserError) as missing:
        reader(project).open(KEYED)
    load(project, KEYED, insert(row(1, "a")))
    with pytest.raises(NeedsUserError) as foreign:
        reader(project, name="other").open(KEYED)
    changed = TableSchema(TABLE, (*KEYED.columns[:2], Column("note", INT64)), ("id",))
    with pytest.raises(SchemaDriftError) as altered:
        reader(project).open(changed)
    project.select("CREATE TABLE {d}.log AS SELECT 1 AS id")
    with pytest.raises(NeedsUserError) as unknown:
        reader(project).progress(KEYLESS.table)
    codes = [raised.value.code for raised in (missing, foreign, unknown, altered)]
    assert codes == ["RPL-6574", "RPL-6524", "RPL-6524", "RPL-6571"]


def test_columns_that_do_not_keep_values_are_refused_by_name(project: Project) -> None:
    project.config = project.config.model_copy(update={"arrays": Arrays.NATIVE})
    project.target.config = project.config
    schema = TableSchema(TABLE, (*KEYED.columns, Column("tags", Array(STRING))), ("id",))
    load(project, schema)
    with pytest.raises(NeedsUserError) as raised:
        reader(project).open(schema)
    assert raised.value.code == "RPL-6572"
    assert raised.value.message.startswith("tags:")


_MERGING = {"mode": "merge-flush", "upsertEnabled": True, "kafkaKeyFieldName": "k"}


@pytest.mark.parametrize("settings", [{"mode": "cdc"}, _MERGING])
def test_modes_whose_tables_are_not_the_source_s_at_a_position_are_refused(
    project: Project, settings: dict[str, Any]
) -> None:
    kept = project.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    changed = type(project.config)(**{**kept, **settings})
    with pytest.raises(NeedsUserError) as raised:
        BigQueryTableReader(changed, project.context(epoch=0))
    assert raised.value.code == "RPL-6570"
