"""Changes of a key's schema: backwards compatible ones are applied, the rest is refused (docs/seeds.md#000-bigquery)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import NeedsUserError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from tests.plugins.targets.bigquery.merge_flush.support.projects import intermediates, merging
from tests.plugins.targets.bigquery.support.changes import KEYLESS, alter, at, batch, ddl, delete, insert, update
from tests.plugins.targets.bigquery.support.project import Project

A, B, V = Column("a", INT64, nullable=False), Column("b", STRING), Column("v", STRING)
TABLE = TableId("shop", "customers")
BEFORE = TableSchema(TABLE, (A, V), ("a",))
WIDER = TableSchema(TABLE, (A, V, B), ("a", "b"))
ADDED = (Alter(AlterKind.ADD_COLUMN, B), Alter(AlterKind.CHANGE_KEY))


def test_a_field_that_may_be_null_is_added_to_the_key(project: Project) -> None:
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, BEFORE))
    consumer.apply_batch(batch(1, [insert({"a": 1, "v": "x"}, BEFORE), insert({"a": 2, "v": "x"}, BEFORE)]))
    (table,) = intermediates(project)
    consumer.apply_ddl(alter(2, WIDER, *ADDED))
    assert intermediates(project) == []
    rows = [
        update({"a": 1, "v": "y", "b": None}, WIDER),
        delete({"a": 2, "b": None}, WIDER),
        insert({"a": 1, "v": "z", "b": "new"}, WIDER),
    ]
    consumer.apply_batch(batch(3, rows))
    assert intermediates(project) != [table]
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(3)
    found = project.select("SELECT customKeyField.a, customKeyField.b, a, b, v FROM {d}.customers ORDER BY v")
    assert found == [["1", None, "1", None, "y"], ["1", "new", "1", "new", "z"]]
    columns = project.select("SELECT * FROM {d}.customers LIMIT 1")
    assert len(columns[0]) == 5, "the former key column is gone"
    consumer.apply_ddl(alter(2, WIDER, *ADDED))  # a replay finds it done
    consumer.stop()


def test_not_null_is_removed_in_the_key(project: Project) -> None:
    relaxed = TableSchema(TABLE, (replace(A, nullable=True), V), ("a",))
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, BEFORE))
    consumer.apply_batch(batch(1, [insert({"a": 1, "v": "x"}, BEFORE)]))
    consumer.apply_ddl(alter(2, relaxed, Alter(AlterKind.RELAX_COLUMN, relaxed["a"], A)))
    consumer.apply_batch(batch(3, [insert({"a": None, "v": "n"}, relaxed), update({"a": 1, "v": "y"}, relaxed)]))
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(3)
    assert project.select("SELECT customKeyField.a, v FROM {d}.customers ORDER BY v") == [[None, "n"], ["1", "y"]]
    consumer.stop()


STRICT = Column("b", STRING, nullable=False)
OTHER = Column("a", STRING, nullable=False)
NAMED = Column("k", INT64, nullable=False)


@pytest.mark.parametrize(
    ("after", "steps"),
    [
        (
            TableSchema(TABLE, (A, V, STRICT), ("a", "b")),
            (Alter(AlterKind.ADD_COLUMN, STRICT), Alter(AlterKind.CHANGE_KEY)),
        ),
        (TableSchema(TABLE, (OTHER, V), ("a",)), (Alter(AlterKind.RETYPE_COLUMN, OTHER, A),)),
        (TableSchema(TABLE, (NAMED, V), ("k",)), (Alter(AlterKind.RENAME_COLUMN, NAMED, A),)),
        (TableSchema(TABLE, (A, V), ("v",)), (Alter(AlterKind.CHANGE_KEY),)),
    ],
    ids=["a field that must not be NULL", "another type", "another name", "another key"],
)
def test_any_other_change_is_refused_and_changes_nothing(
    project: Project, after: TableSchema, steps: tuple[Alter, ...]
) -> None:
    consumer = merging(project)
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, BEFORE))
    consumer.apply_batch(batch(1, [insert({"a": 1, "v": "x"}, BEFORE)]))
    with pytest.raises(SchemaDriftError, match="RPL-6607"):
        consumer.apply_ddl(alter(2, after, *steps))
    assert project.select("SELECT customKeyField.a, a, v FROM {d}.customers") == [["1", "1", "x"]]
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    consumer.stop()


def test_a_table_without_a_key_is_refused(project: Project) -> None:
    consumer = merging(project)
    with pytest.raises(NeedsUserError, match="RPL-6601"):
        consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE, KEYLESS))
    with pytest.raises(NeedsUserError, match="RPL-6601"):
        consumer.begin_snapshot(KEYLESS, "plan", at(1))
    consumer.stop()
    with project.target.create_table_assessor() as assessor:
        assert [f.code for f in assessor.assess_table(KEYLESS).findings] == ["RPL-6601"]
