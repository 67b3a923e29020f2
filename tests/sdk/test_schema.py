"""Tables, columns and their schemas."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.schema import rename_table, replace_columns
from tests.sdk.test_datatype import TYPES

T = TableId("shop", "customers", "public")
CUSTOMERS = TableSchema(
    T, (Column("id", INT64, nullable=False), Column("name", STRING), Column("Name", STRING)), ("id",)
)
COLUMNS = st.builds(Column, st.text(min_size=1), TYPES, st.booleans(), st.text(max_size=5), st.text(max_size=3))


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    columns = tuple(draw(st.lists(COLUMNS, max_size=5, unique_by=lambda c: c.name)))
    key = tuple(draw(st.permutations([c.name for c in columns])))[: draw(st.integers(0, 2))]
    return TableSchema(TableId(*draw(st.tuples(st.text(), st.text(), st.text()))), columns, key)


@given(schemas())
def test_a_schema_is_read_back_from_its_json_form(schema: TableSchema) -> None:
    again = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.fingerprint == schema.fingerprint
    assert again.struct == schema.struct


@given(schemas())
def test_the_arrow_schema_has_every_column_nullable_in_source_order(schema: TableSchema) -> None:
    """Deletes carry NULL even in NOT NULL columns."""
    assert tuple(schema.arrow.names) == schema.names
    assert all(field.nullable for field in schema.arrow)
    assert schema.struct == pa.struct(list(schema.arrow))
    assert tuple(c.name for c in schema.key_columns()) == schema.primary_key


def test_fingerprints_differ_by_names_types_nullability_order_and_key() -> None:
    first, name, other = CUSTOMERS.columns
    different = [
        CUSTOMERS,
        replace_columns(CUSTOMERS, (first, other, name)),
        replace_columns(CUSTOMERS, (first, name)),
        replace_columns(CUSTOMERS, (first, name, Column("Name", INT64))),
        replace_columns(CUSTOMERS, (first, name, Column("Name", STRING, nullable=False))),
        TableSchema(T, CUSTOMERS.columns, ("id", "name")),
        TableSchema(T, CUSTOMERS.columns),
    ]
    assert len({schema.fingerprint for schema in different}) == len(different)


def test_selecting_columns_keeps_the_key_and_the_order() -> None:
    assert CUSTOMERS.select(["Name", "unknown"]).names == ("id", "Name")
    assert CUSTOMERS.select([]).names == ("id",)


def test_names_differ_by_case() -> None:
    assert CUSTOMERS["name"] is not CUSTOMERS["Name"]
    assert "NAME" not in CUSTOMERS


def test_a_broken_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="two columns"):
        TableSchema(T, (Column("a", INT64), Column("a", STRING)))
    with pytest.raises(ValueError, match="no column for the key"):
        TableSchema(T, (Column("a", INT64),), ("b",))


def test_a_table_is_called_by_its_nearest_folder() -> None:
    assert str(T) == "public.customers"
    assert str(TableId("main", "t")) == "main.t"
    assert rename_table(CUSTOMERS, TableId("x", "y")).columns == CUSTOMERS.columns
