"""The standard types as BigQuery's, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replicator_sdk.datatype import INT64, JSON, STRING, UUID, Array, DataType, Decimal, Record, parse_type
from replicator_target_bigquery.schema.encoding import loadable
from replicator_target_bigquery.schema.fields import Field, field_of, standard_type

WIDENED = {
    "int8": "int64",
    "int16": "int64",
    "int32": "int64",
    "float32": "float64",
    "json": "string",
    "uuid": "string",
}
KINDS = (
    *("bool", "int8", "int16", "int32", "int64", "float32", "float64", "string", "binary", "date", "time", "timestamp"),
    *("instant", "json", "uuid", "decimal(10,2)", "decimal(38,9)", "decimal(38,38)", "decimal(29,0)", "array<int64>"),
    *("array<array<string>>", 'record<"a":int64,"b":array<string>>', 'array<record<"x":decimal(12,3)>>'),
)


@pytest.mark.parametrize("text", KINDS)
def test_every_type_comes_back_as_the_type_that_holds_it(text: str) -> None:
    kind = parse_type(text)
    assert str(standard_type(field_of("c", kind))) == WIDENED.get(text, text)


@pytest.mark.parametrize("text", KINDS)
def test_a_field_survives_its_way_through_the_api(text: str) -> None:
    made = field_of("c", parse_type(text))
    assert Field.from_api(made.to_api()) == made


@pytest.mark.parametrize(
    ("precision", "scale", "name"),
    [(38, 9, "NUMERIC"), (29, 0, "NUMERIC"), (30, 0, "BIGNUMERIC"), (10, 10, "BIGNUMERIC"), (38, 0, "BIGNUMERIC")],
)
def test_precision_and_scale_decide_between_numeric_and_bignumeric(precision: int, scale: int, name: str) -> None:
    assert field_of("c", Decimal(precision, scale)).sql == f"{name}({precision}, {scale})"


def test_wide_numbers_of_others_are_text() -> None:
    assert standard_type(Field("c", "BIGNUMERIC")) == STRING
    assert standard_type(Field("c", "BIGNUMERIC", precision=60, scale=20)) == STRING


def test_what_only_bigquery_has_has_no_standard_type() -> None:
    assert standard_type(Field("c", "GEOGRAPHY")) is None
    assert standard_type(Field("c", "STRUCT", fields=(Field("g", "RANGE"),))) is None


@pytest.mark.parametrize("kind", [JSON, UUID])
def test_texts_that_bigquery_would_rewrite_stay_texts(kind: DataType) -> None:
    assert field_of("c", kind).sql == "STRING"


def test_lists_keep_null_apart_from_empty_and_null_elements() -> None:
    values = [[1, None], [], None, [2]]
    made = loadable(pa.array(values, Array(INT64).arrow)[0:4])
    assert made.to_pylist() == [
        {"list": [{"element": 1}, {"element": None}]},
        {"list": []},
        None,
        {"list": [{"element": 2}]},
    ]


def test_lists_of_a_slice_begin_where_the_slice_does() -> None:
    values = pa.array([[9], None, [1, 2], []], Array(INT64).arrow)[1:]
    assert loadable(values).to_pylist() == [None, {"list": [{"element": 1}, {"element": 2}]}, {"list": []}]


def test_fields_of_a_null_record_are_null_and_names_are_bigquerys() -> None:
    kind = Record((("a b", INT64),))
    made = loadable(pa.array([{"a b": 1}, None], kind.arrow))
    assert made.to_pylist() == [{"a_b": 1}, None]


def test_a_column_without_digits_holds_those_with() -> None:
    assert Field("c", "NUMERIC").holds(Field("c", "NUMERIC", precision=10, scale=2))
    assert not Field("c", "NUMERIC", precision=10, scale=2).holds(Field("c", "NUMERIC", precision=11, scale=2))
    assert not Field("c", "STRING").holds(Field("c", "INT64"))
