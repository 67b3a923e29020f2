"""How values of each type are stored in a row of the log, and which declared types each can be.

Widths and lengths: `calc_field_size` in MySQL's `log_event.cc`, metadata: "Table_map_event" in `rows_event.h`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from replicator_source_mysql.definition import ColumnDefinition
from replicator_source_mysql.types.column_type import parse_column_type


class FieldType(IntEnum):
    """Type codes in a table map."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


@dataclass(frozen=True, slots=True)
class StorageType:
    """How a column's values are stored in a row.

    Attributes:
        width: Bytes of a value of fixed width; 0 otherwise.
        prefix: Bytes of the length before a value of variable width; 0 otherwise.
    """

    width: int
    prefix: int


_T = FieldType
_FIXED = {
    _T.TINY: 1, _T.SHORT: 2, _T.LONG: 4, _T.NULL: 0, _T.TIMESTAMP: 4, _T.LONGLONG: 8, _T.INT24: 3, _T.DATE: 3,
    _T.TIME: 3, _T.DATETIME: 8, _T.YEAR: 1, _T.NEWDATE: 3,
}  # fmt: skip
_WIDTH_IN_METADATA = {_T.FLOAT, _T.DOUBLE}
_FRACTION = {_T.TIMESTAMP2: 4, _T.DATETIME2: 5, _T.TIME2: 3}
_LENGTH_IN_METADATA = {_T.BLOB, _T.JSON, _T.GEOMETRY, _T.VECTOR, _T.BLOB_COMPRESSED}
_ONE_BYTE = {*_WIDTH_IN_METADATA, *_FRACTION, *_LENGTH_IN_METADATA}
_STRINGS = {_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED}
_GROUP = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a DECIMAL's group of 0 to 9 digits."""


def real_type(code: int, metadata: bytes, at: int) -> tuple[int, int, int, StorageType]:
    """The type of one column.

    Args:
        code: The type's code in the table map.
        metadata: The metadata of all columns.
        at: Where this one's begins.

    Returns:
        The real type's code, its metadata as a number, how many bytes of metadata it has, and how its values are stored.

    Raises:
        ValueError: When the type is not known.
    """
    if code in _FIXED:
        return code, 0, 0, StorageType(_FIXED[FieldType(code)], 0)
    if code in _ONE_BYTE:
        return code, metadata[at], 1, _of_one_byte(code, metadata[at])
    if at + 2 > len(metadata):
        raise ValueError("its metadata is too short")
    kind, value, form = _of_two_bytes(code, metadata[at], metadata[at + 1])
    return kind, value, 2, form


def _of_one_byte(code: int, value: int) -> StorageType:
    if code in _WIDTH_IN_METADATA:
        return StorageType(value, 0)
    if code in _FRACTION:
        return StorageType(_FRACTION[FieldType(code)] + (value + 1) // 2, 0)
    if not 1 <= value <= 4:
        raise ValueError(f"a length of {value} bytes")
    return StorageType(0, value)


def _of_two_bytes(code: int, first: int, second: int) -> tuple[int, int, StorageType]:
    both = first | second << 8
    if code in _STRINGS:
        return code, both, StorageType(0, 1 if both < 256 else 2)
    if code == _T.NEWDECIMAL and first >= second:
        return code, both, StorageType(_decimal_width(first, second), 0)
    if code == _T.BIT:
        return code, both, StorageType(second + (first > 0), 0)
    if code == _T.STRING:
        return _packed_string(first, second)
    raise ValueError(f"type {code} is not known")


def _packed_string(first: int, second: int) -> tuple[int, int, StorageType]:
    """CHAR, ENUM and SET share a code; lengths beyond 255 use two bits of the real type."""
    kind, length = first, second
    if first & 0x30 != 0x30:
        kind, length = first | 0x30, second | ((first & 0x30) ^ 0x30) << 4
    if kind in {_T.ENUM, _T.SET}:
        return kind, length, StorageType(length, 0)
    if kind != _T.STRING:
        raise ValueError(f"a string of the real type {kind} is not known")
    return kind, length, StorageType(0, 1 if length < 256 else 2)


def _decimal_width(precision: int, scale: int) -> int:
    whole = precision - scale
    return whole // 9 * 4 + _GROUP[whole % 9] + scale // 9 * 4 + _GROUP[scale % 9]


_TEXTS = {_T.VARCHAR, _T.VAR_STRING, _T.STRING, _T.VARCHAR_COMPRESSED}
_BLOBS = {_T.BLOB, _T.BLOB_COMPRESSED}
_ALLOWED: dict[str, set[FieldType]] = {
    "tinyint": {_T.TINY}, "smallint": {_T.SHORT}, "mediumint": {_T.INT24}, "int": {_T.LONG}, "integer": {_T.LONG},
    "bigint": {_T.LONGLONG}, "float": {_T.FLOAT}, "double": {_T.DOUBLE}, "decimal": {_T.NEWDECIMAL},
    "bit": {_T.BIT}, "date": {_T.DATE, _T.NEWDATE}, "time": {_T.TIME, _T.TIME2}, "year": {_T.YEAR},
    "datetime": {_T.DATETIME, _T.DATETIME2}, "timestamp": {_T.TIMESTAMP, _T.TIMESTAMP2},
    "char": _TEXTS, "varchar": _TEXTS, "binary": _TEXTS, "varbinary": _TEXTS,
    "enum": {_T.ENUM}, "set": {_T.SET}, "json": {_T.JSON},
    "vector": {_T.VECTOR, _T.VARCHAR}, "uuid": {_T.STRING}, "inet4": {_T.STRING}, "inet6": {_T.STRING},
}  # fmt: skip
_BLOB_LENGTHS = {
    "tinytext": 1, "tinyblob": 1, "text": 2, "blob": 2, "mediumtext": 3, "mediumblob": 3, "longtext": 4, "longblob": 4
}  # fmt: skip
_OTHERS = {_T.GEOMETRY}


def is_compatible(column: ColumnDefinition, kind: int, metadata: int) -> bool:
    """Whether values of a column declared like that are stored in the log as the table map says."""
    declared = parse_column_type(column.type)
    name = declared.name
    if name in _BLOB_LENGTHS:
        return kind in _BLOBS and metadata == _BLOB_LENGTHS[name]
    if name == "decimal":
        precise = declared.parameter(0, 10) | declared.parameter(1, 0) << 8
        return kind == _T.NEWDECIMAL and metadata == precise
    if name == "bit":
        bits = declared.parameter(0, 1)
        return kind == _T.BIT and metadata == bits % 8 | bits // 8 << 8
    if name in {"time", "datetime", "timestamp"} and kind in _FRACTION:
        return kind in _ALLOWED[name] and metadata == declared.parameter(0, 0)
    return kind in _ALLOWED.get(name, _OTHERS)
