"""What does not keep to the protocol is refused, never skipped; what does comes out whole at any cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk import Column, TableId, TableSchema
from replicator_sdk.datatype import INT32, STRING
from replicator_sdk.errors import BugError, DataError
from replicator_source_postgres.pgoutput import Decoder, Relation, RelationChanges, Truncation, Window
from replicator_source_postgres.pgoutput.images import RelationPlan
from replicator_source_postgres.snapshots.copy_format import split_columns
from replicator_source_postgres.types.convert import Converter
from replicator_source_postgres.types.mapping import PgType, numeric_type, standard_type

TABLE = TableId("d", "t", "public")
SCHEMA = TableSchema(TABLE, (Column("id", INT32), Column("v", STRING)), ("id",))


def framed(payload: bytes) -> bytes:
    return b"w" + struct.pack(">QQq", 1, 1, 0) + payload


def relation(oid: int = 1) -> bytes:
    columns = b"\1id\0" + struct.pack(">Ii", 23, -1) + b"\0v\0" + struct.pack(">Ii", 25, -1)
    return framed(b"R" + struct.pack(">I", oid) + b"public\0t\0d" + struct.pack(">H", 2) + columns)


def image(*values: str | None) -> bytes:
    cells = [b"n" if v is None else b"t" + struct.pack(">I", len(v.encode())) + v.encode() for v in values]
    return struct.pack(">H", len(values)) + b"".join(cells)


def insert(*values: str | None, oid: int = 1) -> bytes:
    return framed(b"I" + struct.pack(">I", oid) + b"N" + image(*values))


def commit(end: int) -> bytes:
    return framed(b"C\0" + struct.pack(">QQq", end, end, 0))


def decoder() -> Decoder:
    def plan(_: Relation, __: object) -> RelationPlan:
        return RelationPlan(SCHEMA, (0, 1), tuple(Converter(TABLE, c) for c in SCHEMA.columns))

    return Decoder(plan)


def rows(found: list[RelationChanges | Truncation]) -> list[object]:
    return [row for item in found if isinstance(item, RelationChanges) for row in item.batch.row.to_pylist()]


VALUES = st.lists(
    st.tuples(st.integers(-(2**31), 2**31 - 1), st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))),
    max_size=30,
)  # fmt: skip


@given(values=VALUES, cut=st.integers(1, 31))
def test_any_rows_are_decoded_whole_at_any_cut_of_the_stream(values: list[tuple[int, str | None]], cut: int) -> None:
    messages = [relation(), *(insert(str(i), v) for i, v in values)]
    reading, found, ordinal = decoder(), [], 0
    for begin in range(0, len(messages), cut):
        found += list(reading.decode(Window(messages[begin : begin + cut]), ordinal))
        ordinal = int(reading.ranks[-1])
    assert rows(found) == [{"id": i, "v": v} for i, v in values]
    ordinals = [o for item in found if isinstance(item, RelationChanges) for o in item.batch.ordinals.tolist()]
    assert ordinals == list(range(len(values)))


@pytest.mark.parametrize(
    "payload",
    [b"S\0\0\0\1\1", b"b", b"Z", b"", b"\0"],
    ids=["stream start (protocol 2)", "begin prepare (protocol 3)", "unknown", "empty", "zero"],
)
def test_an_unknown_message_stops(payload: bytes) -> None:
    with pytest.raises(BugError, match="RPL-3001"):
        Window([relation(), framed(payload)])


@pytest.mark.parametrize(
    "message",
    [
        framed(b"I" + struct.pack(">I", 1) + b"N" + image("1")),
        framed(b"I" + struct.pack(">I", 1) + b"N" + image("1", "a") + b"x"),
        framed(b"I" + struct.pack(">I", 1) + b"K" + image("1", "a")),
        framed(b"U" + struct.pack(">I", 1) + b"K" + image("1", None) + b"X" + image("1", "a")),
        framed(b"D" + struct.pack(">I", 1) + b"N" + image("1", None)),
        framed(b"I" + struct.pack(">I", 1) + b"N" + struct.pack(">H", 2) + b"nb" + struct.pack(">I", 1) + b"x"),
        framed(b"I" + struct.pack(">I", 1) + b"N" + struct.pack(">H", 2) + b"nt" + struct.pack(">I", 900) + b"x"),
    ],
    ids=[
        "fewer columns",
        "bytes left over",
        "insert with key",
        "no new row",
        "delete with new row",
        "binary",
        "too long",
    ],
)
def test_a_row_that_breaks_the_protocol_stops(message: bytes) -> None:
    with pytest.raises(BugError, match="RPL-3002"):
        list(decoder().decode(Window([relation(), message])))


def test_a_change_of_an_unannounced_relation_stops() -> None:
    with pytest.raises(BugError, match="RPL-3003"):
        list(decoder().decode(Window([relation(1), insert("1", "a", oid=2)])))


def test_bytes_that_are_not_utf8_stop_and_are_not_shown() -> None:
    broken = framed(
        b"I" + struct.pack(">I", 1) + b"N" + struct.pack(">H", 2) + b"nt" + struct.pack(">I", 2) + b"\xff\xfe"
    )
    with pytest.raises(DataError, match="RPL-3011") as caught:
        list(decoder().decode(Window([relation(), broken])))
    assert "xff" not in str(caught.value)


def test_a_value_that_is_not_of_its_type_stops_and_is_not_shown() -> None:
    with pytest.raises(DataError, match="RPL-3012") as caught:
        list(decoder().decode(Window([relation(), insert("secret", "a")])))
    assert "secret" not in str(caught.value)


def test_commits_carry_end_and_time() -> None:
    run = Window([relation(), insert("1", "a"), commit(100), insert("2", "b"), commit(200)]).commits()
    assert run.index.tolist() == [2, 4]
    assert run.end_lsn.tolist() == [100, 200]
    assert run.timestamp.tolist() == [946_684_800_000_000] * 2


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.text('ab\\N\t\n\r\b\f\v"é', max_size=6)), min_size=3, max_size=3), max_size=8
    )
)
def test_copy_text_is_parsed_to_the_rows_it_was_written_from(table: list[list[str | None]]) -> None:
    escapes = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}

    def cell(value: str | None) -> str:
        return "\\N" if value is None else "".join(escapes.get(c, c) for c in value)

    lines = [("\t".join(map(cell, row)) + "\n").encode() for row in table]
    columns = [[v if v is None else v.decode() for v in column.to_pylist()] for column in split_columns(lines, 3)]
    assert [list(row) for row in zip(*columns, strict=True)] == table


def test_rows_of_another_width_stop() -> None:
    with pytest.raises(BugError, match="RPL-3601"):
        split_columns([b"1\t2\n"], 3)


@pytest.mark.parametrize(
    ("precision", "scale", "wanted"),
    [(12, 2, "decimal(12,2)"), (3, 5, "decimal(5,5)"), (5, -2, "decimal(7,0)"), (38, 38, "decimal(38,38)"),
     (38, -1, "string"), (39, 0, "string"), (1000, 500, "string")],
)  # fmt: skip
def test_numeric_is_a_decimal_exactly_where_one_holds_it(precision: int, scale: int, wanted: str) -> None:
    typmod = ((precision << 16) | (scale & 0x7FF)) + 4
    assert str(numeric_type(typmod)) == wanted


def test_an_unknown_type_is_text_and_a_domain_is_its_base_type() -> None:
    types = {90000: PgType(90000, base=90001), 90001: PgType(90001, base=1700, base_typmod=((6 << 16) | 2) + 4)}

    def lookup(oid: int) -> PgType:
        return types.get(oid, PgType(oid))

    assert str(standard_type(123456, -1, lookup)) == "string"
    assert str(standard_type(90000, -1, lookup)) == "decimal(6,2)"
