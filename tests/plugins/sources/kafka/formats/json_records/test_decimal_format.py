"""Decimals that are numbers in JSON (`decimal.format=NUMERIC`) are as exact as those in base64."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_source_kafka.config import KafkaConfig
from replicator_source_kafka.formats import Decoded, make_format
from tests.plugins.sources.kafka.formats.connect import Field, Table, records, written

LINES = (Path(__file__).parents[2] / "samples" / "decimals.txt").read_bytes().splitlines()
WANTED = {
    "id": Decimal(2**64 - 1),
    "amount": Decimal("-123456789012345678901234567890123456.70"),
    "tiny": Decimal("0.00000000000000000001"),
    "hundreds": Decimal(-12300),
    "huge": "1234567890123456789012345678901234567890123456789012345.00001",
    "nothing": None,
    "list": [Decimal("0.1"), Decimal("-2.0")],
    "text": '"amount":"1234"',
}


def decimal(name: str, scale: int = 2, precision: int = 12) -> Field:
    """A column."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return Field(name, "bytes", "org.apache.kafka.connect.data.Decimal", parameters)


def table(second: str = "version") -> Table:
    """A table of two decimals, the second with a name of the test's choice."""
    return Table((decimal("id", 0, 8), decimal(second, 3, 15), Field("text", "string")))


def decode(form: str, *pairs: tuple[bytes | None, bytes | None]) -> Decoded:
    """The decoded records."""
    return make_format(
        KafkaConfig.model_validate({"bootstrapServers": "127.0.0.1:1", "topics": ["t"], "format": form})
    ).decode(records(*pairs))


def rows(decoded: Decoded) -> list[Any]:
    """All rows, in the order of their records."""
    assert not decoded.poison
    found = [pair for part in decoded.parts for pair in zip(part.index.tolist(), part.row.to_pylist(), strict=True)]
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def change(op: str, row: dict[str, Any], numeric: bool) -> tuple[bytes | None, bytes]:
    """An envelope, its decimals as numbers or in base64."""
    second = list(row)[1]
    key, value = table(second).change(op, None, row)
    if numeric:
        for name in ("id", second):
            if row[name] is not None:
                quoted = f'"{name}":"{written(row[name])}"'.encode()
                plain = f'"{name}":{row[name]}'.encode()
                assert value.count(quoted) == 1
                key, value = (key or b"").replace(quoted, plain), value.replace(quoted, plain)
    return key, value


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 1), (0, 1, 0, 1)])
def test_what_the_converter_writes_is_exact_in_both_forms_and_any_order(order: tuple[int, ...]) -> None:
    pairs = [(LINES[2 * form], LINES[2 * form + 1]) for form in order]
    assert rows(decode("flattened-json", *pairs)) == [WANTED] * len(order)


@pytest.mark.parametrize("form", [0, 1])
def test_a_tombstone_names_its_row_in_both_forms(form: int) -> None:
    (part,) = decode("flattened-json", (LINES[2 * form], None)).parts
    assert part.before is not None
    assert part.before.to_pylist() == [{"id": WANTED["id"]}]


def _thousandths(number: int | None) -> Decimal | None:
    return None if number is None else Decimal(number).scaleb(-3)


FEW = st.lists(
    st.tuples(
        st.booleans(),
        st.fixed_dictionaries(
            {
                # 1234 in base64 is 14_122_616, and 0000 is 13_849_421: digits that are no number.
                "id": st.sampled_from([-2_654_600, 13_849_421, 14_122_616]) | st.integers(-(10**8) + 1, 10**8 - 1),
                "version": st.none() | st.integers(-(10**15) + 1, 10**15 - 1),
                "text": st.text(max_size=5) | st.just('"id":"1234"'),
            }
        ),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(FEW, st.sampled_from(["version", "table"]))
def test_any_mixture_of_formats_is_read(given_rows: list[tuple[bool, dict[str, Any]]], second: str) -> None:
    """Also where a column has the name of a text in the envelope."""
    made = [
        (numeric, {"id": Decimal(row["id"]), second: _thousandths(row["version"]), "text": row["text"]})
        for numeric, row in given_rows
    ]
    decoded = decode("debezium-json", *(change("c", row, numeric) for numeric, row in made))
    assert rows(decoded) == [row for _, row in made]


def test_a_delete_takes_a_key_of_numbers() -> None:
    row = {"id": Decimal(7), "version": Decimal("0.001"), "text": "a"}
    key, _ = change("c", row, numeric=True)
    assert b'"id":7' in (key or b"")
    gone = table().change("d", None, None)[1]
    decoded = decode("debezium-json", change("c", row, numeric=True), (key, gone))
    deletes = [
        part.before[-1].as_py() for part in decoded.parts if part.before is not None and part.op[-1].as_py() == 3
    ]
    found = [poison.code for poison in decoded.poison]
    assert (deletes, found) == ([{"id": Decimal(7), "version": None, "text": None}], [])


@pytest.mark.parametrize("value", ["12.34567", "1e400", "true", '"12.3"', "{}"])
def test_an_invalid_decimal_is_poison_and_other_records_are_read(value: str) -> None:
    good = {"id": Decimal(1), "version": Decimal("0.001"), "text": "a"}
    key, whole = change("c", good, numeric=True)
    bad = whole.replace(b'"version":0.001', b'"version":' + value.encode())
    decoded = decode("debezium-json", (key, whole), (key, bad), (key, whole))
    assert [p.index for p in decoded.poison] == [1]
    assert len(json.loads(bad.replace(b"1e400", b"1"))) == 2
    assert [row for part in decoded.parts for row in part.row.to_pylist()] == [good, good]
