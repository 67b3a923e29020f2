"""Of a change of structure only the steps are applied that the table's copy does not have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.engine.stream.steps_after_copy import steps_after_copy
from replicator_sdk import AlterKind, Column, DDLEvent, DDLOperation, TableId, TableSchema
from replicator_sdk.authoring.schema_diff import alter_steps
from replicator_sdk.datatype import INT32, INT64, STRING
from tests.runtime.engine.log_model import Place

_TABLE = TableId("shop", "orders")
_KEY = Column("id", INT64, nullable=False, source_id="0")


def _steps(old: TableSchema, new: TableSchema) -> DDLEvent:
    names = {column.source_id: column.name for column in old.columns}
    origins = {c.name: names[c.source_id] for c in new.columns if c.source_id in names}
    defaults = {column.name: f"default of {column.source_id}" for column in new.columns}
    alters = alter_steps(old, new, origins, defaults=defaults)
    return DDLEvent(Place(9), DDLOperation.ALTER_TABLE, _TABLE, new, alters=alters)


@st.composite
def _schemas(draw: st.DrawFn) -> TableSchema:
    ids = draw(st.lists(st.sampled_from("123456"), unique=True, max_size=4))
    names = draw(st.permutations("abcdef"))
    types = draw(st.lists(st.sampled_from([INT32, INT64, STRING]), min_size=4, max_size=4))
    columns = [Column(name, kind, source_id=i) for i, name, kind in zip(ids, names, types, strict=False)]
    return TableSchema(_TABLE, (_KEY, *columns), ("id",))


@given(_schemas(), _schemas(), _schemas())
def test_the_steps_lead_from_the_copy_to_the_last_columns(
    first: TableSchema, copied: TableSchema, last: TableSchema
) -> None:
    found = steps_after_copy(_steps(first, last), copied)
    wanted = _steps(copied, last)
    added = {
        step.column.name for step in _steps(first, last).alters if step.kind is AlterKind.ADD_COLUMN and step.column
    }
    for mine, theirs in zip(found.alters, wanted.alters, strict=True):
        assert (mine.kind, mine.column, mine.previous) == (theirs.kind, theirs.column, theirs.previous)
        if mine.kind is AlterKind.ADD_COLUMN and mine.column is not None and mine.column.name in added:
            assert mine.default == theirs.default


@given(_schemas(), _schemas())
def test_an_event_that_begins_at_the_copy_is_not_changed(copied: TableSchema, last: TableSchema) -> None:
    event = _steps(copied, last)
    assert steps_after_copy(event, copied) is event
