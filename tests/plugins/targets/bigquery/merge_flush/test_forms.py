"""The forms of mode merge-flush: upsert only, delete only, updates that lack columns, partitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from replicator_sdk.datatype import STRING
from replicator_sdk.errors import DataError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_bigquery.config import PartitionType
from replicator_target_bigquery.merge_flush.intermediate.rows import RowFormat, streamed
from replicator_target_bigquery.merge_flush.statements import FlushMerge, clean
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.pruning import Pruning
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY, intermediates, merging, streaming
from tests.plugins.targets.bigquery.support.changes import EXACT, KEYED, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.sql_parser import parse_sql
from tests.services.bigquery.emulators import Emulators

DEEP = Field("s", "STRUCT", "NULLABLE", fields=(Field("f", "FLOAT64"), Field("l", "STRING", "REPEATED")))
KEYS = [
    (Field("id", "INT64", "REQUIRED"),),
    (Field("id", "INT64", "REQUIRED"), Field("select", "STRING")),
    (DEEP, Field("day", "DATE", "REQUIRED")),
]
FORMS = [(True, True, False), (True, False, False), (False, True, False), (True, True, True), (False, True, True)]
"""Upsert, delete, and whether deleted rows stay."""


@pytest.mark.parametrize(
    ("key", "form", "partition"),
    list(itertools.product(KEYS, FORMS, [None, *PartitionType])),
)
def test_every_form_is_bigquery_sql(
    key: tuple[Field, ...], form: tuple[bool, bool, bool], partition: PartitionType | None
) -> None:
    upsert, delete, soft = form
    columns = (*key, Field("v", "STRING"))
    insists = Pruning((), Field("day", "DATE"))
    merge = FlushMerge(
        "`p.d.t`",
        "`p.d.i`",
        7,
        Field("k", "STRUCT", fields=key),
        columns,
        upsert,
        delete,
        partition,
        pruning=insists,
        soft_deletes=soft,
    )
    (parsed,) = parse_sql(merge.statement())
    assert isinstance(parsed, exp.Merge)
    parse_sql(f"SELECT {merge.rows()}")
    parse_sql(clean("`p.d.i`", 7))
    text = merge.statement()
    assert ("_PARTITIONTIME" in text) is (partition is not None)
    assert ("THEN DELETE" in text) is (delete and not soft)
    assert ("THEN UPDATE" in text) is (upsert or soft)
    assert "T.`day` >= DATE '0001-01-01'" in text
    (inserted,) = parsed.find_all(exp.Insert)
    named = [c.name for c in inserted.this.expressions if c.name != "_PARTITIONTIME"]
    own = ["_sequence_num", "_is_deleted"] if soft else ["_sequence_num"]
    assert named == ["k", *own, *(c.name for c in columns)]


def drive(project: Project) -> list[list[Any]]:
    """Two flushes of changes; what the table holds then."""
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(i, "a")) for i in (1, 2, 3)]))
    consumer.settle([KEYED.table])
    moved = update(row(4, "moved"), before={"id": 2})
    gone = [insert(row(5, "short")), delete({"id": 5}), delete({"id": 3})]
    consumer.apply_batch(batch(2, [update(row(1, "b")), update(row(1, "c")), moved, *gone]))
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(2)
    consumer.stop()
    return project.select(f"SELECT id, name FROM {{d}}.customers WHERE {KEY}.id = id ORDER BY id, name")


def test_upsert_only_keeps_what_the_source_deletes(bigquery_emulators: Emulators) -> None:
    found = drive(streaming(bigquery_emulators, delete_enabled=False))
    assert found == [["1", "c"], ["2", "a"], ["3", "a"], ["4", "moved"], ["5", "short"]]


def test_delete_only_inserts_each_row_and_deletes_all_of_a_deleted_key(bigquery_emulators: Emulators) -> None:
    found = drive(streaming(bigquery_emulators, upsert_enabled=False))
    assert found == [["1", "a"], ["1", "b"], ["1", "c"], ["4", "moved"]]


def test_values_an_update_does_not_send_stay(project: Project) -> None:
    """By a load job and mode batch's MERGE, after what was streamed before."""
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a", "kept")), insert(row(2, "b", "kept"))]))
    consumer.apply_batch(batch(2, [update({"id": 3, "name": "c"}, before={"id": 1}), update({"id": 2, "note": "n"})]))
    assert consumer.settled(KEYED.table) == at(2), "durable at once"
    consumer.apply_batch(batch(3, [update(row(2, "z", "n"))]))
    consumer.settle([KEYED.table])
    found = project.select(f"SELECT {KEY}.id, id, name, note FROM {{d}}.customers ORDER BY id")
    assert found == [["2", "2", "z", "n"], ["3", "3", "c", "kept"]]
    consumer.stop()


def test_without_upsert_and_delete_together_such_updates_are_refused(bigquery_emulators: Emulators) -> None:
    consumer = merging(streaming(bigquery_emulators, delete_enabled=False))
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    with pytest.raises(DataError, match="RPL-6610"):
        consumer.apply_batch(batch(1, [update({"id": 2, "note": "n"})]))
    consumer.stop()


def test_snapshot_rows_have_their_key_and_changes_find_them(project: Project) -> None:
    consumer = merging(project)
    rows = [row(i, "a") for i in range(10)]
    consumer.begin_snapshot(KEYED, "plan", at(1))
    consumer.load_chunks(KEYED, "plan", [SnapshotChunk(0, {"rest": 0, "of": 1})], MemoryChunkReader(KEYED, rows))
    consumer.finish_snapshot(KEYED, "plan", at(1))
    consumer.apply_batch(batch(2, [delete({"id": i}) for i in range(8)], overlap=True))
    consumer.settle([KEYED.table])
    assert project.select(f"SELECT {KEY}.id, id FROM {{d}}.customers ORDER BY id") == [["8", "8"], ["9", "9"]]
    consumer.stop()


def test_a_merge_reads_the_blocks_of_its_keys_only(project: Project) -> None:
    """Those before a change are among them: rows that move and rows that go."""
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(i)) for i in (1, 500, 90000)]))
    consumer.settle([KEYED.table])
    consumer.apply_batch(batch(2, [update(row(7), before={"id": 500})]))
    consumer.apply_batch(batch(3, [delete({"id": 90000})]))
    consumer.settle([KEYED.table])
    merges = [job.sql for job in project.emulators.gate.jobs if "MERGE" in job.sql]
    ranges = "T.`id` BETWEEN 7 AND 7 OR T.`id` BETWEEN 500 AND 500 OR T.`id` BETWEEN 90000 AND 90000"
    assert f"AND ({ranges})" in merges[-1]
    assert project.select("SELECT id FROM {d}.customers ORDER BY id") == [["1"], ["7"]]
    consumer.stop()


def test_names_become_bigquerys_inside_keys_and_values(project: Project) -> None:
    names = ("Id", "id 2", 'say "hi"', "a.b", "ÄÖ", "naïve 😀", "%s")
    schema = TableSchema(KEYED.table, tuple(Column(name, STRING) for name in names), ("Id", "a.b"))
    first = dict.fromkeys(names, "x")
    consumer = merging(project)
    consumer.apply_batch(batch(1, [insert(first, schema), insert({**first, "Id": "y"}, schema)]))
    consumer.apply_batch(batch(2, [update({**first, "%s": "z"}, schema), delete({"Id": "y", "a.b": "x"}, schema)]))
    consumer.settle([schema.table])
    assert consumer.settled(schema.table) == at(2)
    assert project.read_table(schema) == [{**first, "%s": "z"}]
    assert project.select(f"SELECT {KEY}.Id, {KEY}.a_b FROM {{d}}.customers") == [["x", "x"]]
    consumer.stop()


def test_rows_carry_their_partition_time_where_the_settings_say_so() -> None:
    changes = batch(1, [insert(row(1)), update(row(2), before={"id": 1})])
    names = {n: n for n in KEYED.names}
    table = pa.Table.from_batches(streamed(changes, RowFormat(names, EXACT, partition_time=True, message_time=True), 1))
    (moment,) = set(table["partitionTime"].cast(pa.int64()).to_pylist())
    (only,) = changes.batches()
    assert only.timestamps is not None
    assert moment == only.timestamps[0]
    read = pa.Table.from_batches(streamed(changes, RowFormat(names, EXACT, partition_time=True), 1))
    assert min(read["partitionTime"].cast(pa.int64()).to_pylist()) > moment
    none = pa.Table.from_batches(streamed(changes, RowFormat(names, EXACT), 1))
    assert none["partitionTime"].null_count == none.num_rows == 3


def test_a_source_without_commit_times_is_refused_where_they_are_needed() -> None:
    changes = batch(1, [insert(row(1))])
    (only,) = changes.batches()
    assert only.timestamps is not None
    only.timestamps[:] = -1
    with pytest.raises(DataError, match="RPL-6602"):
        list(
            streamed(changes, RowFormat({n: n for n in KEYED.names}, EXACT, partition_time=True, message_time=True), 1)
        )


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.tuples(st.sampled_from("iud"), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
def test_the_last_i_of_each_key_is_the_tables_state(steps: list[tuple[str, int, int]]) -> None:
    """Whatever the changes do, moves and swaps included: replayed by the test, and by the rows that are streamed."""
    table: dict[int, str] = {}
    changes = []
    for number, (kind, key, other) in enumerate(steps):
        name = f"n{number}"
        if kind == "i" and key not in table:
            table[key] = name
            changes.append(insert(row(key, name)))
        elif kind == "d" and table.pop(key, None) is not None:
            changes.append(delete({"id": key}))
        elif kind == "u" and key in table and (other == key or other not in table):
            del table[key]
            table[other] = name
            changes.append(update(row(other, name), before={"id": key}))
    if not changes:
        return
    rows = pa.Table.from_batches(
        streamed(batch(1, changes), RowFormat({n: n for n in KEYED.names}, EXACT), 1)
    ).to_pylist()
    assert len({r["i"] for r in rows}) == len(rows)
    last = {r["key"]["id"]: r["value"] for r in sorted(rows, key=lambda r: r["i"])}
    assert {key: value["name"] for key, value in last.items() if value is not None} == table
    assert np.all(np.array([r["batchNumber"] for r in rows]) == 1)


def test_a_partitioning_column_is_the_one_named(bigquery_emulators: Emulators) -> None:
    """By time of arrival else; intermediate tables always so."""
    project = streaming(bigquery_emulators)
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    found = consumer._clients.bigquery
    for table in ("customers", *intermediates(project)):
        partitions = found.get_table(f"{project.config.project}.{project.dataset}.{table}").time_partitioning
        assert (partitions.type_, partitions.field) == ("DAY", None)
    consumer.stop()
