"""Whether a change of type leaves every value what it was, as it arrives at the target."""

from __future__ import annotations

from replicator_sdk.datatype import DataType
from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.charset_names import bytes_per_character
from replicator_source_mysql.types.column_type import ColumnType, parse_column_type

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "integer": 32, "bigint": 64}
_TEXT_BYTES = {"tinytext": 2**8 - 1, "text": 2**16 - 1, "mediumtext": 2**24 - 1, "longtext": 2**32 - 1}
_BLOB_BYTES = {"tinyblob": 2**8 - 1, "blob": 2**16 - 1, "mediumblob": 2**24 - 1, "longblob": 2**32 - 1}
# Character sets that hold every character of another, and write it as the same one.
_WIDER_CHARSETS = {
    ("latin1", "utf8mb4"), ("latin1", "utf8mb3"), ("utf8mb3", "utf8mb4"), ("ascii", "utf8mb4"), ("ascii", "utf8mb3"),
    ("ascii", "latin1"),
}  # fmt: skip


def keeps_values(before: ColumnDefinition, after: ColumnDefinition, old: DataType, new: DataType) -> bool:
    """Whether no value changed between two definitions of one column.

    Not about NULL: a column that no longer allows it may have had NULLs, see `steps`.

    Args:
        before: The column before.
        after: The column after.
        old: The standard type before.
        new: The standard type after.
    """
    if (before.type, before.charset) == (after.type, after.charset):
        return True
    was, now = parse_column_type(before.type), parse_column_type(after.type)
    if was.name in _INTEGER_BITS and now.name in _INTEGER_BITS:
        return _holds_integers(was, now) and type(old) is type(new)
    if before.charset or after.charset:
        return _keeps_text(before, after, was, now)
    rule = _RULES.get(was.name if was.name == now.name else f"{was.name} {now.name}")
    if rule is not None:
        return rule(was, now) and (type(old) is type(new))
    return was == now or (was.name in _BYTES and now.name in _BYTES and _keeps_bytes(was, now))


def _holds_integers(was: ColumnType, now: ColumnType) -> bool:
    old, new = _INTEGER_BITS[was.name], _INTEGER_BITS[now.name]
    if was.is_unsigned:
        return new >= old if now.is_unsigned else new > old
    return not now.is_unsigned and new >= old


def _keeps_text(before: ColumnDefinition, after: ColumnDefinition, was: ColumnType, now: ColumnType) -> bool:
    if before.charset != after.charset and (before.charset, after.charset) not in _WIDER_CHARSETS:
        return False
    if was.members or now.members:
        return was.name == now.name and now.members[: len(was.members)] == was.members
    if now.name == "char":
        return was.name == "char" and now.parameter(0, 1) >= was.parameter(0, 1)
    return _text_room(now, after.charset) >= _text_need(was, before.charset, after.charset)


def _text_room(now: ColumnType, charset: str) -> int:
    """How much of text a column takes: bytes, for VARCHAR as if every character had the most."""
    return _TEXT_BYTES.get(now.name, now.parameter(0, 1) * bytes_per_character(charset))


def _text_need(was: ColumnType, old_charset: str, new_charset: str) -> int:
    """How much the text that was there may need."""
    if was.name in {"char", "varchar"}:
        return was.parameter(0, 1) * bytes_per_character(new_charset)
    # Between the others every character keeps its bytes; from latin1 one may need three.
    grows = old_charset == "latin1" != new_charset
    return min(_TEXT_BYTES[was.name] * (3 if grows else 1), _TEXT_BYTES["longtext"])


_BYTES = {"binary", "varbinary", *_BLOB_BYTES}


def _keeps_bytes(was: ColumnType, now: ColumnType) -> bool:
    """A BINARY that grows gets zeros at its end."""
    if now.name == "binary":
        return was == now
    old = _BLOB_BYTES.get(was.name, was.parameter(0, 1))
    return _BLOB_BYTES.get(now.name, now.parameter(0, 1)) >= old


def _keeps_decimal(was: ColumnType, now: ColumnType) -> bool:
    if now.is_unsigned and not was.is_unsigned:
        return False
    old, new = (was.parameter(0, 10), was.parameter(1, 0)), (now.parameter(0, 10), now.parameter(1, 0))
    # Beyond 38 digits a value arrives as text, with all digits of its scale.
    is_text = old[0] > 38 or new[0] > 38
    return new[0] - new[1] >= old[0] - old[1] and (new[1] == old[1] if is_text else new[1] >= old[1])


def _keeps_float(was: ColumnType, now: ColumnType) -> bool:
    is_narrower = now.is_unsigned and not was.is_unsigned
    return not is_narrower and (not now.parameters or (was.name == now.name and was.parameters == now.parameters))


def _widens_float(was: ColumnType, now: ColumnType) -> bool:
    return not now.parameters and (was.is_unsigned or not now.is_unsigned)


def _keeps_fraction(was: ColumnType, now: ColumnType) -> bool:
    return now.parameter(0, 0) >= was.parameter(0, 0)


def _keeps_time(was: ColumnType, now: ColumnType) -> bool:
    """It arrives as text with the digits of its column."""
    return now.parameter(0, 0) == was.parameter(0, 0)


def _keeps_bits(was: ColumnType, now: ColumnType) -> bool:
    """It arrives as bytes, one bit as a boolean."""
    old, new = was.parameter(0, 1), now.parameter(0, 1)
    return old == new or (1 < old <= new and -(-old // 8) == -(-new // 8))


def _keeps_vector(was: ColumnType, now: ColumnType) -> bool:
    return now.parameter(0, 2048) >= was.parameter(0, 2048)


def _same(was: ColumnType, now: ColumnType) -> bool:  # noqa: ARG001
    return True


_RULES = {
    "decimal": _keeps_decimal, "float": _keeps_float, "double": _keeps_float, "datetime": _keeps_fraction,
    "timestamp": _keeps_fraction, "time": _keeps_time, "bit": _keeps_bits, "vector": _keeps_vector, "year": _same,
}  # fmt: skip
_GEOMETRY = {
    "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
}  # fmt: skip
_RULES |= {f"{name} geometry": _same for name in _GEOMETRY} | {"float double": _widens_float}
