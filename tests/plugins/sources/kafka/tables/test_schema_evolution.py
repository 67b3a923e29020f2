"""A table's schema over time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.datatype import FLOAT64, INT8, INT16, INT32, INT64, JSON, STRING, Decimal, parse_type
from replicator_sdk.errors import DataError, SchemaDriftError
from replicator_sdk.event import AlterKind
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_source_kafka.formats.format import Part
from replicator_source_kafka.tables.schema_evolution import conform, reconcile, widened

TABLE = TableId("shop", "orders", "public")


def schema(*columns: tuple[str, str], key: tuple[str, ...] = ("id",), nullable: bool = True) -> TableSchema:
    """A table of these columns."""
    return TableSchema(TABLE, tuple(Column(name, parse_type(kind), nullable) for name, kind in columns), key)


KNOWN = schema(("id", "int32"), ("amount", "decimal(8,2)"), ("note", "string"))


def test_a_schema_that_is_known_needs_no_step_in_whatever_order() -> None:
    seen = schema(("note", "string"), ("id", "int32"), ("amount", "decimal(8,2)"))
    assert reconcile(KNOWN, seen).alters == ()
    assert reconcile(KNOWN, seen).schema is KNOWN


def test_new_columns_are_added_and_types_widen() -> None:
    seen = schema(("id", "int64"), ("fresh", "date"), ("amount", "decimal(9,4)"), nullable=False)
    fit = reconcile(KNOWN, seen)
    assert [(a.kind, a.column.name if a.column else "") for a in fit.alters] == [
        (AlterKind.RETYPE_COLUMN, "id"),
        (AlterKind.RETYPE_COLUMN, "amount"),
        (AlterKind.ADD_COLUMN, "fresh"),
    ]
    assert [str(c.type) for c in fit.schema.columns] == ["int64", "decimal(10,4)", "string", "date"]
    assert fit.schema["fresh"].nullable


def test_a_missing_column_stays_and_becomes_nullable() -> None:
    fit = reconcile(schema(("id", "int32"), ("old", "string"), nullable=False), schema(("id", "int32"), nullable=False))
    assert [(a.kind, a.column) for a in fit.alters] == [(AlterKind.RELAX_COLUMN, Column("old", STRING, True))]
    assert fit.schema.names == ("id", "old")


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (schema(("id", "int32"), ("note", "int64")), "RPL-3921"),
        (schema(("id", "int32"), ("amount", "decimal(38,0)")), "RPL-3921"),
        (schema(("id", "float64")), "RPL-3921"),
        (schema(("id", "int32"), ("note", "string"), key=("id", "note")), "RPL-3920"),
        (schema(("id", "int32"), key=()), "RPL-3920"),
    ],
)
def test_unsupported_changes_are_schema_drift(seen: TableSchema, code: str) -> None:
    with pytest.raises(SchemaDriftError) as caught:
        reconcile(KNOWN, seen)
    assert caught.value.code == code
    assert caught.value.table == "public.orders"


TYPES = st.sampled_from([INT8, INT16, INT32, INT64]) | st.builds(
    lambda whole, scale: Decimal(whole + scale, scale), st.integers(1, 19), st.integers(0, 19)
)


@given(TYPES, TYPES)
def test_the_joined_schema_is_the_same_from_both_sides_and_lasting(one: object, two: object) -> None:
    first, second = (TableSchema(TABLE, (Column("a", kind),), ()) for kind in (one, two))  # type: ignore[arg-type]
    if widened(first["a"].type, second["a"].type) is None:
        return
    joined, turned = reconcile(first, second).schema, reconcile(second, first).schema
    assert str(joined["a"].type) == str(turned["a"].type)
    for seen in (first, second):
        assert reconcile(joined, seen).alters == ()


def test_another_kind_of_text_is_not_a_change() -> None:
    assert widened(STRING, JSON) is STRING
    assert widened(FLOAT64, INT64) is FLOAT64
    assert widened(INT64, FLOAT64) is None


def part(row: pa.StructArray, before: pa.StructArray | None, seen: TableSchema) -> Part:
    """Updates, with the rows before if given."""
    count = len(row)
    return Part(seen, np.arange(count), pa.array([2] * count, pa.int8()), row, before, False, np.arange(count))


def test_a_part_takes_the_known_shape() -> None:
    seen = schema(("note", "string"), ("id", "int16"))
    row = pa.array([{"note": "a", "id": 1}, {"note": None, "id": 2}], seen.struct)
    before = pa.array([None, {"note": None, "id": 3}], seen.struct)
    fitted = conform(part(row, before, seen), KNOWN)
    assert fitted.row.type == KNOWN.struct
    assert fitted.row.to_pylist()[0] == {"id": 1, "amount": None, "note": "a"}
    assert fitted.before is not None
    assert fitted.before.to_pylist() == [None, {"id": 3, "amount": None, "note": None}]


def test_the_row_before_a_change_is_another_one_once_a_column_is_dropped() -> None:
    """So a table without a key keeps that row: a limit that docs/source-kafka.md names."""
    wide, narrow = schema(("text", "string"), ("size", "int32"), key=()), schema(("text", "string"), key=())
    came = conform(part(pa.array([{"text": "a", "size": 5}], wide.struct), None, wide), wide)
    gone = pa.array([{"text": "a"}], narrow.struct)
    went = conform(part(gone, gone, narrow), wide)
    assert went.before is not None
    assert went.before.to_pylist() == [{"text": "a", "size": None}]
    assert went.before != came.row


def test_a_number_that_a_float_cannot_hold_is_an_error() -> None:
    seen = schema(("id", "int64"))
    row = pa.array([{"id": 2**53 + 1}], seen.struct)
    with pytest.raises(DataError, match="RPL-3922"):
        conform(part(row, None, seen), schema(("id", "float64")))
