"""Names as BigQuery takes them."""

from __future__ import annotations

import re

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from replicator_sdk.datatype import INT64, Record
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.schema.names import column_name, column_names, table_name
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.sql.text import name, text

CONFIG = BigQueryConfig(project="p", staging_bucket="b")


@settings(deadline=None)
@given(st.text())
def test_any_text_becomes_a_name_bigquery_takes(source: str) -> None:
    made = column_name(source)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,299}", made)
    assert not made.lower().startswith(("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_change_"))
    assert column_name(made) == made
    assert re.fullmatch(r"[A-Za-z0-9_]+", table_name(source))


def test_names_that_fit_stay() -> None:
    assert [column_name(n) for n in ("id", "Total_2", "_x", "1st", "_PARTITIONTIME")] == [
        *("id", "Total_2", "_x", "_1st", "c_PARTITIONTIME")
    ]


@pytest.mark.parametrize("names", [("a b", "a.b"), ("ID", "id"), ("_sequence_num", "x"), ("ä", "ö")])
def test_names_that_collide_are_refused(names: tuple[str, str]) -> None:
    schema = TableSchema(TableId("d", "t"), tuple(Column(n, INT64) for n in names))
    with pytest.raises(NeedsUserError) as err:
        column_names(schema, ["_sequence_num"])
    assert err.value.code == "RPL-6501"


def test_fields_that_collide_inside_a_record_are_refused() -> None:
    kind = Record((("a b", INT64), ("a.b", INT64)))
    with pytest.raises(NeedsUserError):
        column_names(TableSchema(TableId("d", "t"), (Column("r", kind),)), [])


@pytest.mark.parametrize("table", ["_staging_customers", "_replicator_commits"])
def test_a_table_is_never_taken_for_one_of_the_replicators(table: str) -> None:
    with pytest.raises(NeedsUserError):
        TableRef.of(TableId("d", table), CONFIG)


def test_the_dataset_is_the_sources_schema_unless_one_is_named() -> None:
    assert TableRef.of(TableId("db", "t", "my-schema"), CONFIG).id == "p.my_schema.t"
    named = CONFIG.model_copy(update={"dataset_name": "all", "dataset_project": "q"})
    assert TableRef.of(TableId("db", "t"), named).staging_id == "q.all._staging_t"


@settings(deadline=None)
@given(st.text())
def test_any_text_survives_as_a_literal(value: str) -> None:
    (found,) = sqlglot.parse_one(f"SELECT {text(value)}", read="bigquery").find_all(exp.Literal)
    assert found.is_string
    if value.isprintable():
        assert found.this == value


def test_a_name_cannot_end_its_quotes() -> None:
    with pytest.raises(ValueError, match="backtick"):
        name("a`b")
