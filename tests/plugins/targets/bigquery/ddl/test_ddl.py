"""Changes of structure: followed, refused by policy, and found done by a replay."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Any

import pytest

from replicator_sdk.datatype import INT64, STRING, Decimal
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.schema import Column, TableId, TableSchema, replace_columns
from tests.plugins.targets.bigquery.support.changes import KEYED, alter, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators

ID, NAME, NOTE = KEYED.columns
RENAMED = replace_columns(KEYED, (ID, Column("title", STRING), NOTE))
RENAME = Alter(AlterKind.RENAME_COLUMN, Column("title", STRING), NAME)
SWAPPED = replace_columns(KEYED, (ID, Column("note", STRING), Column("name", STRING)))
SWAP = (
    Alter(AlterKind.RENAME_COLUMN, Column("t", STRING), NAME),
    Alter(AlterKind.RENAME_COLUMN, NAME, NOTE),
    Alter(AlterKind.RENAME_COLUMN, NOTE, Column("t", STRING)),
)


def with_policy(emulators: Emulators, policy: str, **settings: Any) -> Project:
    emulators.gate.clear()
    return Project(emulators, schema_changes=policy, **settings)


def started(project: Project, *rows: dict[str, Any]) -> Any:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(r) for r in rows or (row(1, "a", "n"),)]))
    return consumer


def test_a_rename_is_refused_unless_the_pipeline_names_a_policy(bigquery_emulators: Emulators) -> None:
    project = with_policy(bigquery_emulators, "fail")
    consumer = started(project)
    with pytest.raises(SchemaDriftError) as err:
        consumer.apply_ddl(alter(2, RENAMED, RENAME))
    assert "schemaChanges" in err.value.hint
    assert project.select("SELECT id, name FROM {d}.customers") == [["1", "a"]]


def test_a_renamed_column_takes_its_values_to_a_new_one(bigquery_emulators: Emulators) -> None:
    project = with_policy(bigquery_emulators, "newColumn")
    consumer = started(project)
    consumer.apply_ddl(alter(2, RENAMED, RENAME))
    consumer.apply_batch(batch(3, [insert({"id": 2, "title": "b", "note": None}, RENAMED)]))
    assert project.select("SELECT id, name, title FROM {d}.customers ORDER BY id") == [
        ["1", "a", "a"],
        ["2", None, "b"],
    ]


@pytest.mark.parametrize(("policy", "kept"), [("newColumn", ["1", "7", "n7"]), ("rebuild", None)])
def test_a_column_gets_another_type(bigquery_emulators: Emulators, policy: str, kept: list[str] | None) -> None:
    project = with_policy(bigquery_emulators, policy)
    consumer = started(project, row(1, "7"))
    retyped = replace_columns(KEYED, (ID, Column("name", INT64), NOTE))
    consumer.apply_ddl(alter(2, retyped, Alter(AlterKind.RETYPE_COLUMN, Column("name", INT64), NAME)))
    consumer.apply_batch(batch(3, [insert({"id": 2, "name": 8, "note": None}, retyped)]))
    assert project.select("SELECT id, name + 1 FROM {d}.customers ORDER BY id") == [["1", "8"], ["2", "9"]]
    columns = {c[0] for c in project.select("SELECT column_name FROM (SELECT 'name_before_3' AS column_name)")}
    names = project.select("SELECT TO_JSON_STRING(T) FROM {d}.customers AS T WHERE id = 1")[0][0]
    assert (next(iter(columns)) in str(names)) is (kept is not None)


def test_a_wider_number_is_followed_whatever_the_policy(bigquery_emulators: Emulators) -> None:
    project = with_policy(bigquery_emulators, "fail")
    schema = TableSchema(TableId("shop", "prices"), (ID, Column("price", Decimal(6, 2))), ("id",))
    wide = replace_columns(schema, (ID, Column("price", Decimal(12, 2))))
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, schema))
    consumer.apply_batch(batch(1, [insert({"id": 1, "price": Number("1.50")}, schema)]))
    consumer.apply_ddl(alter(2, wide, Alter(AlterKind.RETYPE_COLUMN, wide["price"], schema["price"])))
    consumer.apply_batch(batch(3, [insert({"id": 2, "price": Number("1234567890.25")}, wide)]))
    assert [Number(str(v[0])) for v in project.select("SELECT price FROM {d}.prices ORDER BY id")] == [
        Number("1.5"),
        Number("1234567890.25"),
    ]


def test_not_null_is_removed(project: Project) -> None:
    strict = replace_columns(KEYED, (ID, Column("name", STRING, nullable=False), NOTE))
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, strict))
    consumer.apply_ddl(alter(1, KEYED, Alter(AlterKind.RELAX_COLUMN, NAME, strict["name"])))
    consumer.apply_batch(batch(2, [insert(row(1, None))]))
    assert project.select("SELECT id, name FROM {d}.customers") == [["1", None]]


def test_existing_rows_get_the_default_of_a_new_column(project: Project) -> None:
    consumer = started(project, row(1), row(2))
    wider = replace_columns(KEYED, (*KEYED.columns, Column("stars", INT64)))
    consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, Column("stars", INT64), default=5)))
    assert project.select("SELECT stars FROM {d}.customers") == [["5"], ["5"]]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_an_interrupted_swap_of_names_is_continued(project: Project, after: int) -> None:
    """The names come back to where they were, so only the noted columns show what is left to do."""
    first = started(project)
    arm(f"bigquery.ddl.step=raise@{after}")
    event = alter(2, SWAPPED, *SWAP)
    with pytest.raises(RetryableError):
        first.apply_ddl(event)
    arm("")
    for _ in range(2):
        again = project.consumer()
        again.apply_ddl(event)
        again.stop()
    assert project.select("SELECT id, name, note FROM {d}.customers") == [["1", "n", "a"]]


def test_a_manually_altered_table_stops_with_an_error(project: Project) -> None:
    consumer = started(project)
    consumer.stop()
    consumer = project.consumer()
    wider = replace_columns(KEYED, (*KEYED.columns, Column("stars", INT64)))
    with pytest.raises(SchemaDriftError) as err:
        consumer.apply_batch(batch(2, [insert({**row(2), "stars": 1}, wider)]))
    assert "has no column stars" in err.value.message
    assert err.value.table == "shop.customers"


def test_a_dropped_table_loses_its_staging_table_and_can_be_created_again(project: Project) -> None:
    consumer = started(project)
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    assert consumer.progress(KEYED.table) is None
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE))
    assert project.count("customers") == 0
    consumer.apply_batch(batch(4, [insert(row(4))]))
    assert project.count("customers") == 1


def test_a_table_with_manual_drops_stops_until_it_is_dropped(bigquery_emulators: Emulators) -> None:
    project = with_policy(bigquery_emulators, "fail", require_manual_drops=True)
    consumer = started(project)
    event = ddl(2, DDLOperation.DROP_TABLE, None)
    with pytest.raises(NeedsUserError) as err:
        consumer.apply_ddl(event)
    assert err.value.code == "RPL-6554"
    project.select("DROP TABLE {d}.customers")
    consumer.apply_ddl(event)
    assert consumer.progress(KEYED.table) is None
