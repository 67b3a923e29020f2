"""What the emulator's Arrow columns do not show of the real service's: wide decimals, and forms inside columns."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from replicator_sdk.datatype import INT64, JSON, STRING, Array, DataType, Decimal, Record
from replicator_target_bigquery.reading.decoding import decoded, form_of, inexact
from replicator_target_bigquery.schema.fields import EXACT, Field, Forms, field_of


@pytest.mark.parametrize(
    ("kind", "width"), [(Decimal(12, 2), pa.decimal128(38, 9)), (Decimal(38, 20), pa.decimal256(76, 38))]
)
def test_decimals_come_wider_than_they_are_compared(kind: Decimal, width: pa.DataType) -> None:
    form = form_of(kind, field_of("n", kind))
    assert form == kind.arrow
    values = [decimal.Decimal("-1.25"), None, decimal.Decimal(10) ** 9]
    assert decoded(pa.array(values, width), kind, form).to_pylist() == values


def test_a_column_of_unbounded_numbers_has_no_form() -> None:
    assert form_of(Decimal(12, 2), Field("n", "BIGNUMERIC")) is None


@pytest.mark.parametrize(
    ("kind", "forms", "expected"),
    [
        (STRING, EXACT, False),
        (Array(Record((("a", Array(INT64)),))), EXACT, False),
        (Array(INT64), Forms(native_arrays=True), True),
        (Record((("a", Record((("b", Array(INT64)),))),)), Forms(native_arrays=True), True),
        (JSON, Forms(json_type=True), True),
        (JSON, EXACT, False),
    ],
)
def test_columns_that_do_not_keep_every_value_are_known(kind: DataType, forms: Forms, expected: bool) -> None:
    assert inexact(field_of("c", kind, forms=forms)) is expected
