"""The bounds that statistics in the log give for one column, of many files at once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from replicator_target_delta.file_index.sort_words import TEXT_WORDS, Words, as_integers, as_texts, to_words
from replicator_target_delta.files.statistics import parse_statistics

Bools = npt.NDArray[np.bool_]
_FEW: Final = 48  # so many are parsed faster one by one
_NEARLY_ALL: Final = 0.9
_ROUNDED_DOWN: Final = 999  # microseconds that a writer may have left out of an upper bound


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """What is known of one column of some files.

    Attributes:
        low: Words of the smallest values; of texts after `prefix`.
        high: Words of the largest values.
        unknown: Whether a file may hold any value.
        nulls: Whether a file may hold NULL.
        prefix: The bytes that all texts begin with.
    """

    low: Words
    high: Words
    unknown: Bools
    nulls: Bools
    prefix: bytes = b""


def row_counts(stats: Iterable[pa.Array]) -> npt.NDArray[np.int64]:
    """How many rows each file has by its statistics; -1 unknown."""
    parsed = _parse_pieces(stats, None)
    counts: npt.NDArray[np.int64] = pc.fill_null(parsed["rows"], -1).to_numpy()
    return counts


def column_bounds(stats: Iterable[pa.Array], column: pa.Field) -> tuple[ColumnBounds, npt.NDArray[np.int64]]:
    """The bounds of one column, and the row counts.

    Args:
        stats: The files' `stats`, NULL where there are none, in pieces.
        column: Its physical name and type.
    """
    parsed = _parse_pieces(stats, column)
    low, high = _typed(parsed["low"], column.type), _typed(parsed["high"], column.type)
    if pa.types.is_timestamp(column.type):
        high = pc.add(high, _ROUNDED_DOWN)
    known = _true(pc.and_(low.is_valid(), high.is_valid()))
    if pa.types.is_floating(column.type):
        known &= ~_true(pc.or_(pc.is_nan(low), pc.is_nan(high)))
        low, high = pc.if_else(pa.array(known), low, 0.0), pc.if_else(pa.array(known), high, 0.0)
    empty = _true(pc.equal(parsed["nulls"], parsed["rows"])) & ~known
    prefix, width = _text_form(low, high) if pa.types.is_string(column.type) else (b"", 0)
    lows, highs = to_words(low, len(prefix), width), to_words(high, len(prefix), width)
    lows[~known], highs[~known] = np.iinfo(np.uint64).max, 0  # between which no value is
    nulls = ~_true(pc.equal(parsed["nulls"], 0))
    rows: npt.NDArray[np.int64] = pc.fill_null(parsed["rows"], -1).to_numpy()
    return ColumnBounds(lows, highs, ~known & ~empty, nulls, prefix), rows


def _true(values: pa.Array) -> Bools:
    found: Bools = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found


def _text_form(low: pa.Array, high: pa.Array) -> tuple[bytes, int]:
    """What all texts begin with, and how many words after it keep nine of ten different bounds apart."""
    prefix = _common_prefix(low, high)
    wanted = _NEARLY_ALL * pc.count_distinct(low).as_py()
    for width in TEXT_WORDS[:-1]:
        if len(np.unique(as_texts(to_words(low, len(prefix), width)))) >= wanted:
            return prefix, width
    return prefix, TEXT_WORDS[-1]


def _common_prefix(low: pa.Array, high: pa.Array) -> bytes:
    least, most = pc.min_max(low.cast(pa.binary())).as_py()["min"], pc.min_max(high.cast(pa.binary())).as_py()["max"]
    if least is None or most is None:
        return b""
    same = (at for at, (one, other) in enumerate(zip(least, most, strict=False)) if one != other)
    return bytes(least[: next(same, min(len(least), len(most)))])


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parsed bounds in a type that has words; 32-bit numbers as the column rounds them."""
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.float32()) if kind.equals(pa.float32()) else values


def _parse_pieces(pieces: Iterable[pa.Array], column: pa.Field | None) -> dict[str, pa.Array]:
    parts = [_parse(piece, column) for piece in pieces]
    return {name: pa.concat_arrays([part[name] for part in parts]) for name in parts[0]}


def _parse(stats: pa.Array, column: pa.Field | None) -> dict[str, pa.Array]:
    """Rows, NULLs and bounds: texts and decimals as such, floats as 64 bits, all else as 64-bit whole numbers."""
    if len(stats) > _FEW:
        try:
            return _parse_together(stats, column)
        except pa.ArrowInvalid:  # a writer's statistics of another form: what can be read of each is
            pass
    return _parse_each(stats, column)


def _parse_together(stats: pa.Array, column: pa.Field | None) -> dict[str, pa.Array]:
    """By Arrow's own reader, which leaves out the other columns."""
    fields = [pa.field("numRecords", pa.int64())]
    if column is not None:
        bound, count = pa.struct([(column.name, _written_as(column.type))]), pa.struct([(column.name, pa.int64())])
        fields += [pa.field("minValues", bound), pa.field("maxValues", bound), pa.field("nullCount", count)]
    filled = pc.fill_null(stats, "{}")
    lines = pa.ListArray.from_arrays(pa.array([0, len(filled)], pa.int32()), filled)
    text = pc.binary_join(lines, "\n")[0].as_buffer()
    found = arrow_json.read_json(
        pa.BufferReader(text),
        arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
        arrow_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"),
    ).combine_chunks()
    if found.num_rows != len(stats):
        raise pa.ArrowInvalid("a line of statistics is not one object")
    parts = {"rows": _whole(found["numRecords"])}
    if column is not None:
        for part, name in (("low", "minValues"), ("high", "maxValues"), ("nulls", "nullCount")):
            parts[part] = pc.struct_field(_whole(found[name]), [0])
        for part in ("low", "high"):
            parts[part] = _as_number(parts[part], column.type)
    return parts


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _written_as(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which JSON has a bound of the type `kind`."""
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    return kind if pa.types.is_decimal(kind) else pa.string()


def _as_number(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Dates and times of day from their text."""
    return as_integers(values.cast(kind)) if pa.types.is_temporal(kind) else values


def _parse_each(stats: pa.Array, column: pa.Field | None) -> dict[str, pa.Array]:
    """One after the other; what has no meaning is NULL."""
    parsed = [_object(text) for text in stats.to_pylist()]
    parts = {"rows": pa.array([_integer(p.get("numRecords")) for p in parsed], pa.int64())}
    if column is not None:
        kind = pa.int64() if pa.types.is_temporal(column.type) else _written_as(column.type)
        for part, name in (("low", "minValues"), ("high", "maxValues")):
            parts[part] = pa.array([_bound(_inner(p, name, column.name), column.type, kind) for p in parsed], kind)
        counts = [_integer(_inner(p, "nullCount", column.name)) for p in parsed]
        parts["nulls"] = pa.array(counts, pa.int64())
    return parts


def _object(text: str | None) -> dict[str, Any]:
    try:
        found: object = parse_statistics(text)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _inner(parsed: dict[str, Any], part: str, name: str) -> Any:
    values = parsed.get(part)
    return values.get(name) if isinstance(values, dict) else None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _bound(value: Any, kind: pa.DataType, written: pa.DataType) -> Any:
    """A bound as a Python value that `written` holds; None where it has no meaning for the column."""
    if value is None:
        return None
    try:
        if pa.types.is_date(kind):
            return (date.fromisoformat(value) - date(1970, 1, 1)).days
        if pa.types.is_timestamp(kind):
            return _micros(value)
        if pa.types.is_decimal(kind):
            value = Decimal(value)
        elif pa.types.is_floating(kind):
            value = float(value)
        elif pa.types.is_integer(kind):
            value = _integer(value)
        return pa.scalar(value, written).as_py()
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        return None


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
