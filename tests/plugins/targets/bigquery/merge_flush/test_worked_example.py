"""The worked example of docs/seeds.md#000-bigquery, to the letter, and the eight steps of a merge flush."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from typing import Any

import pytest
import sqlglot

from replicator_sdk.datatype import INT64, STRING, Record
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_bigquery.config import PartitionType
from replicator_target_bigquery.merge_flush.intermediate.tables import intermediate_fields
from replicator_target_bigquery.merge_flush.statements import FlushMerge, clean
from replicator_target_bigquery.schema.fields import Field
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, merging, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.bigquery.support.sql_parser import parse_sql
from tests.services.bigquery.emulators import PROJECT, Emulators
from tests.services.held_point import held_at
from tests.services.processes import LOOPBACK

KEY = Field("customKeyField", "STRUCT", fields=(Field("k1", "INT64", "REQUIRED"), Field("k2", "STRING")))
VALUE = (Field("f1", "STRING"), Field("f2", "STRING", "REQUIRED"))
DEMO = Field("key", "STRUCT", fields=KEY.fields)


def demo(upsert: bool = True, delete: bool = True, **facts: Any) -> FlushMerge:
    names = ("`kcbq`.`upsertDeleteDemo`", "`kcbq`.`upsertDeleteDemo_tmp`")
    return FlushMerge(*names, 2, KEY, VALUE, upsert, delete, stamped=False, **facts)


def test_the_intermediate_table_is_the_seeds() -> None:
    columns = [(f.name, f.type, f.mode) for f in intermediate_fields(KEY, VALUE)]
    assert columns == [
        ("key", "STRUCT", "NULLABLE"),
        ("value", "STRUCT", "NULLABLE"),
        ("partitionTime", "TIMESTAMP", "NULLABLE"),
        ("i", "INT64", "REQUIRED"),
        ("batchNumber", "INT64", "REQUIRED"),
    ]
    key, value, *_ = intermediate_fields(KEY, VALUE)
    assert [(f.name, f.type, f.mode) for f in key.fields] == [("k1", "INT64", "REQUIRED"), ("k2", "STRING", "NULLABLE")]
    assert [(f.name, f.type, f.mode) for f in value.fields] == [
        ("f1", "STRING", "NULLABLE"),
        ("f2", "STRING", "REQUIRED"),
    ]


SEEDS_MERGE = """
MERGE `kcbq`.`upsertDeleteDemo` AS T
USING (
  SELECT ARRAY_AGG(x ORDER BY x.i DESC LIMIT 1)[OFFSET(0)] AS src
  FROM `kcbq`.`upsertDeleteDemo_tmp` AS x
  WHERE x.batchNumber = 2
  GROUP BY x.key.k1, x.key.k2
) AS S
ON T.customKeyField.k1 = S.src.key.k1
  AND IFNULL(TO_JSON_STRING(T.customKeyField.k2), 'null') = IFNULL(TO_JSON_STRING(S.src.key.k2), 'null')
WHEN MATCHED AND S.src.value IS NOT NULL
  THEN UPDATE SET f1 = S.src.value.f1, f2 = S.src.value.f2
WHEN MATCHED AND S.src.value IS NULL
  THEN DELETE
WHEN NOT MATCHED AND S.src.value IS NOT NULL
  THEN INSERT (customKeyField, _PARTITIONTIME, f1, f2)
  VALUES (S.src.key, CAST(CAST(DATE(S.src.partitionTime) AS DATE) AS TIMESTAMP), S.src.value.f1, S.src.value.f2)
"""
"""The seed's, with its slips corrected (an alias, `rowTime` for `partitionTime`) and keys compared field by field."""


def test_the_merge_is_the_seeds() -> None:
    made = demo(partition=PartitionType.DAY).statement()
    parse_sql(made)

    def plain(text: str) -> str:
        return sqlglot.parse_one(text, read="bigquery").sql("bigquery", identify=True)

    assert plain(made) == plain(SEEDS_MERGE)
    assert clean("`kcbq`.`upsertDeleteDemo_tmp`", 2).split("WHERE ")[1] == (
        "batchNumber <= 2 AND _PARTITIONTIME IS NOT NULL"
    )


def make(project: Project, table: str, fields: tuple[Field, ...]) -> None:
    """Make a table as the seed declares it; the emulator takes no NOT NULL inside a STRUCT from a statement."""
    body = {
        "tableReference": {"projectId": PROJECT, "datasetId": project.dataset, "tableId": table},
        "schema": {"fields": [f.to_api() for f in fields]},
    }
    send(project, f"datasets/{project.dataset}/tables", body)


def send(project: Project, path: str, body: object) -> None:
    url = f"http://{LOOPBACK}:{project.emulators.bigquery_port}/bigquery/v2/projects/{PROJECT}/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60):
        pass


HELD = ["(1, 'a', 'old')", "(2, NULL, 'old')", "(3, 'c', 'old')", "(4, NULL, 'old')"]
STREAMED = [  # k1, k2, f2 or None for a delete, i, batch number
    (1, "a", "new", 1, 2),
    (1, "a", "newer", 3, 2),
    (2, None, "new", 2, 2),
    (3, "c", "gone", 4, 2),
    (3, "c", None, 5, 2),
    (4, None, None, 6, 2),
    (5, None, "come", 7, 2),
    (6, None, "gone again", 8, 2),
    (6, None, None, 9, 2),
    (7, "x", "of another batch", 10, 3),
]


@pytest.fixture
def seeds(project: Project) -> Project:
    """The seed's tables with some rows, keys with NULL among them."""
    send(project, "datasets", {"datasetReference": {"projectId": PROJECT, "datasetId": project.dataset}})
    make(project, "upsertDeleteDemo", (KEY, *VALUE))
    make(project, "upsertDeleteDemo_tmp", intermediate_fields(KEY, VALUE))
    for held in HELD:
        k1, k2, f2 = held.strip("()").split(", ")
        project.select(
            f"INSERT INTO {{d}}.upsertDeleteDemo SELECT STRUCT({k1} AS k1, CAST({k2} AS STRING) AS k2), NULL, {f2}"
        )
    rows = [
        {
            "json": {
                "key": {"k1": k1, "k2": k2},
                "value": None if f2 is None else {"f1": f"f{i}", "f2": f2},
                "i": i,
                "batchNumber": number,
            }
        }
        for k1, k2, f2, i, number in STREAMED
    ]
    send(project, f"datasets/{project.dataset}/tables/upsertDeleteDemo_tmp/insertAll", {"rows": rows})
    return project


def merged(project: Project, upsert: bool, delete: bool) -> list[list[Any]]:
    sql = demo(upsert, delete).statement()
    parse_sql(sql)
    project.select(sql.replace("`kcbq`", "{d}"))
    return project.select("SELECT customKeyField.k1, customKeyField.k2, f2 FROM {d}.upsertDeleteDemo ORDER BY 1, f2")


def test_upsert_and_delete(seeds: Project) -> None:
    assert merged(seeds, upsert=True, delete=True) == [["1", "a", "newer"], ["2", None, "new"], ["5", None, "come"]]


def test_delete_only(seeds: Project) -> None:
    """Rows are added, and a delete takes all of its key that came before it."""
    assert merged(seeds, upsert=False, delete=True) == [
        ["1", "a", "new"],
        ["1", "a", "newer"],
        ["1", "a", "old"],
        ["2", None, "new"],
        ["2", None, "old"],
        ["5", None, "come"],
    ]


def test_upsert_only(seeds: Project) -> None:
    """No delete is streamed then."""
    seeds.select("DELETE FROM {d}.upsertDeleteDemo_tmp WHERE value IS NULL")
    assert merged(seeds, upsert=True, delete=False) == [
        ["1", "a", "newer"],
        ["2", None, "new"],
        ["3", "c", "gone"],
        ["4", None, "old"],
        ["5", None, "come"],
        ["6", None, "gone again"],
    ]


def test_structs_in_a_key_are_flattened_however_deep(project: Project) -> None:
    inner = Record((("n", INT64), ("deep", Record((("s", STRING),)))))
    schema = TableSchema(TableId("d", "nested"), (Column("r", inner), Column("v", STRING)), ("r",))
    keys = [{"n": 1, "deep": {"s": "x"}}, {"n": 1, "deep": {"s": None}}, {"n": 1, "deep": None}, None]
    consumer = merging(project)
    consumer.apply_batch(batch(1, [insert({"r": key, "v": "old"}, schema) for key in keys]))
    consumer.settle([schema.table])
    consumer.apply_batch(
        batch(2, [*(update({"r": key, "v": "new"}, schema) for key in keys[1:]), delete({"r": keys[0]}, schema)])
    )
    consumer.settle([schema.table])
    assert consumer.settled(schema.table) == at(2)
    found = project.select("SELECT r IS NULL, r.deep IS NULL, r.deep.s, v FROM {d}.nested ORDER BY 1, 2")
    assert [values[3] for values in found] == ["new", "new", "new"]
    assert "x" not in [values[2] for values in found]
    groups = [job.sql for job in project.emulators.gate.jobs if "MERGE" in job.sql]
    assert (
        "GROUP BY x.`key`.`r` IS NULL, x.`key`.`r`.`n`, x.`key`.`r`.`deep` IS NULL, x.`key`.`r`.`deep`.`s`" in groups[0]
    )
    consumer.stop()


def streamed_rows(project: Project, table: str) -> list[list[Any]]:
    return project.select(f"SELECT `key`.id, value.name, i, batchNumber, partitionTime FROM {{d}}.`{table}` ORDER BY i")


def test_rows_are_streamed_before_they_are_merged_and_an_i_is_a_changes_own(project: Project) -> None:
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "b"))]))
    moved, gone = update(row(3, "a"), before={"id": 1}), delete({"id": 2})
    consumer.apply_batch(batch(2, [moved, gone]))
    (table,) = intermediates(project)
    assert streamed_rows(project, table) == [
        ["1", "a", "2003", "1", None],
        ["2", "b", "2005", "1", None],
        ["1", None, "4002", "1", None],
        ["3", "a", "4003", "1", None],
        ["2", None, "4005", "1", None],
    ]
    assert project.count("customers") == 0
    assert consumer.settled(KEYED.table) is None
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(2)
    found = project.select("SELECT customKeyField.id, _sequence_num, id, name FROM {d}.customers")
    assert found == [["3", "2001", "3", "a"]]
    consumer.stop()


def test_rows_are_streamed_during_a_merge_and_old_batches_are_deleted(project: Project) -> None:
    """Steps 1, 2 and 8."""
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    with held_at("merge_flush.merge.before"):
        consumer._flush(KEYED.table).begin()
        consumer.apply_batch(batch(2, [insert(row(2, "b"))]))
        (table,) = intermediates(project)
        assert [values[3] for values in streamed_rows(project, table)] == ["1", "2"]
        assert project.count("customers") == 0
    consumer.settle([KEYED.table])
    assert project.count("customers") == 2
    until = time.monotonic() + 120
    while streamed_rows(project, table) and time.monotonic() < until:
        time.sleep(0.05)
    assert streamed_rows(project, table) == []
    consumer.stop()
    assert intermediates(project) == []


def test_a_merge_waits_for_rows_of_its_number_in_flight(project: Project) -> None:
    """Step 3."""
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1, "a"))]))
    with held_at("merge_flush.streamed") as streamed:
        late = threading.Thread(target=lambda: consumer.apply_batch(batch(2, [insert(row(2, "b"))])))
        late.start()
        streamed.wait()
        consumer._flush(KEYED.table).begin()
        time.sleep(0.4)  # a merge that did not wait would begin now
        streamed.release()
        late.join()
    consumer.settle([KEYED.table])
    assert consumer.settled(KEYED.table) == at(2)
    assert project.count("customers") == 2
    assert sum("MERGE" in job.sql for job in project.emulators.gate.jobs) == 1
    consumer.stop()


def test_an_interval_or_a_number_of_rows_makes_a_merge(bigquery_emulators: Emulators) -> None:
    for settings in ({"merge_interval_ms": 200}, {"merge_interval_ms": -1, "merge_records_threshold": 2}):
        project = streaming(bigquery_emulators, **settings)
        consumer = merging(project)
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
        consumer.apply_batch(batch(1, [insert(row(1)), insert(row(2))]))
        until = time.monotonic() + 120
        while consumer.settled(KEYED.table) != at(1) and time.monotonic() < until:
            time.sleep(0.05)
        assert consumer.settled(KEYED.table) == at(1)
        assert project.count("customers") == 2
        consumer.stop()


def test_a_null_in_a_key_is_found_again(project: Project) -> None:
    """`T.key = src.key` is NULL then, and the seed's MERGE inserts the row once more at each flush."""
    schema = TableSchema(TableId("d", "t"), (Column("a", INT64), Column("b", STRING), Column("v", STRING)), ("a", "b"))
    consumer = merging(project)
    for position in (1, 2):
        change = {"a": 1, "b": None, "v": str(position)}
        consumer.apply_batch(batch(position, [(insert if position == 1 else update)(change, schema)]))
        consumer.settle([schema.table])
    assert project.select("SELECT a, b, v FROM {d}.t") == [["1", None, "2"]]
    consumer.stop()
