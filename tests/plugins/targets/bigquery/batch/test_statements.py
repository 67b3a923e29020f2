"""Every form of statement is BigQuery SQL to a parser that is not ours, and says what it must."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from sqlglot import exp

from replicator_sdk.datatype import BINARY, DATE, FLOAT64, INT64, STRING, Array, Record
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.batch.keyed_merge import KeyedMerge
from replicator_target_bigquery.batch.keyless_merge import KeylessMerge
from replicator_target_bigquery.commit_log.commit import COMMITTED, Commit, TableState
from replicator_target_bigquery.commit_log.statements import claim, insert, prune, rows_of, select
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.schema.fields import Field, field_of
from replicator_target_bigquery.sql.comparison import KeyColumn
from replicator_target_bigquery.sql.pruning import KeyRanges, Pruning
from replicator_target_bigquery.sql.script import guarded
from replicator_target_bigquery.sql.table_ref import TableRef
from tests.plugins.targets.bigquery.support.changes import at
from tests.plugins.targets.bigquery.support.sql_parser import parse_sql

COLUMNS = tuple(
    field_of(name, kind)
    for name, kind in (
        *(("id", INT64), ("select", STRING), ("f", FLOAT64), ("b", BINARY), ("day", DATE)),
        *(("tags", Array(STRING)), ("r", Record((("x", INT64),)))),
    )
)
STAGED = "(SELECT * FROM `p.d._staging_t` WHERE _batch_id = 'x')"
DAY = next(c for c in COLUMNS if c.name == "day")


def pruning() -> Pruning:
    ranges = KeyRanges(COLUMNS[0])
    ranges.add(pa.array([1, 2, 900, None]))
    return Pruning((ranges,), DAY)


KEYS = [("id",), ("id", "select"), ("f",), ("r", "b"), ("day", "id")]


@pytest.mark.parametrize(("keys", "nullable", "soft", "lacking"), list(itertools.product(KEYS, *[(False, True)] * 3)))
def test_the_merge_of_a_table_with_a_key(keys: tuple[str, ...], nullable: bool, soft: bool, lacking: bool) -> None:
    key = tuple(KeyColumn(next(c for c in COLUMNS if c.name == k), nullable) for k in keys)
    unresolved = (("select", 2), ("tags", 6)) if lacking else ()
    merge = KeyedMerge("`p.d.t`", STAGED, COLUMNS, key, pruning(), unresolved, soft)
    (parsed,) = parse_sql(merge.statement())
    assert isinstance(parsed, exp.Merge)
    parse_sql(f"SELECT {merge.lost()}")
    text = merge.statement()
    assert "T.`id` BETWEEN 1 AND 2 OR T.`id` BETWEEN 900 AND 900 OR T.`id` IS NULL" in text
    assert ("THEN DELETE" in text) is not soft
    assert "T.`day` >= DATE '0001-01-01'" in text


@pytest.mark.parametrize(("inserts_only", "soft"), list(itertools.product((False, True), (False, True))))
def test_the_merge_of_a_table_without_a_key(inserts_only: bool, soft: bool) -> None:
    merge = KeylessMerge("`p.d.t`", STAGED, COLUMNS, inserts_only, Pruning((), DAY), soft)
    (parsed,) = parse_sql(merge.statement())
    assert isinstance(parsed, exp.Merge)
    parse_sql(f"SELECT * FROM ({merge.net_counts()})")
    assert ("ON FALSE" in merge.statement()) is inserts_only


def test_a_key_without_null_is_compared_by_equality_alone_so_that_blocks_are_skipped() -> None:
    key = (KeyColumn(COLUMNS[0], nullable=False),)
    assert "ON T.`id` = D.`id`" in KeyedMerge("`p.d.t`", STAGED, COLUMNS, key).statement()


@pytest.mark.parametrize("kind", ["FLOAT64", "STRUCT"])
def test_nothing_is_grouped_by_what_bigquery_cannot_group(kind: str) -> None:
    column = next(c for c in COLUMNS if c.type == kind)
    text = KeyedMerge("`p.d.t`", STAGED, COLUMNS, (KeyColumn(column, nullable=False),)).statement()
    assert f"PARTITION BY TO_JSON_STRING(R.`{column.name}`" in text


def test_the_commit_log() -> None:
    table = TableId("shop", "o'brien")
    place = TableRef.of(table, BigQueryConfig(project="p", staging_bucket="b"))
    row = Commit(3, COMMITTED, "ns/it's", 2, "batch@3", table, TableProgress(1, 2, at(5)))
    script = guarded(TableState((row,)).checks(2, row.batch), rows_of(place), [insert(place, row)])
    parse_sql(script)
    for every_table in (False, True):
        parse_sql(claim(place, row, every_table=every_table))
        parse_sql(select(place, every_table=every_table))
    parse_sql(prune(place))


def test_every_column_of_a_schema_is_written() -> None:
    schema = TableSchema(TableId("d", "t"), (Column("id", INT64), Column("x", STRING)), ("id",))
    columns = tuple(field_of(c.name, c.type) for c in schema.columns)
    (parsed,) = parse_sql(KeyedMerge("`p.d.t`", STAGED, columns, (KeyColumn(columns[0], nullable=True),)).statement())
    (inserted,) = list(parsed.find_all(exp.Insert))
    assert [c.name for c in inserted.this.expressions] == ["_sequence_num", "id", "x"]
    assert Field("id", "INT64") == columns[0]
