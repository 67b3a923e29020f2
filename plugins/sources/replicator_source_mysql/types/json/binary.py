"""Reads MySQL's binary JSON into a tree whose leaves are JSON text.

A value is a type byte and its bytes; objects and arrays begin with a table of offsets, in which numbers of 16 bits (32 in a
large one) and literals are stored themselves.
"""

from __future__ import annotations

import base64
import struct
from functools import lru_cache
from json.encoder import encode_basestring
from typing import TypeAlias

import numpy as np

from replicator_source_mysql.types.json.number import double_text
from replicator_source_mysql.types.values.decimal import read_groups, text_of

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str"

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = 0, 1, 2, 3
_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _DOUBLE, _STRING, _OPAQUE = 4, 5, 6, 7, 8, 11, 12, 15
_LITERALS = ("null", "true", "false")
_NUMBERS = {
    5: struct.Struct("<h"),
    6: struct.Struct("<H"),
    7: struct.Struct("<i"),
    8: struct.Struct("<I"),
    9: struct.Struct("<q"),
    10: struct.Struct("<Q"),
}
_INLINE = frozenset({_LITERAL, _INT16, _UINT16, _INT32, _UINT32})
"""Types that may be stored in the table of a container."""
_FLOAT = struct.Struct("<d")
_BASE64_LINE = 76
_TIMESTAMP, _DATE, _TIME, _DATETIME, _DECIMAL = 7, 10, 11, 12, 246
"""Types of opaque values that have a text of their own."""


class MalformedError(ValueError):
    """The bytes are no binary JSON."""


def read_document(data: bytes) -> Tree:
    """The tree of a document; no bytes at all are the JSON literal null, which a column that must not be NULL gets when
    a careless statement leaves it out.

    Raises:
        MalformedError: When the bytes are no document.
    """
    if not data:
        return "null"
    try:
        return value_tree(data[0], data, 1)
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError, ValueError):
        raise MalformedError("not binary JSON") from None


def document_text(tree: Tree) -> str:
    """A tree as the server prints it: keys in their order, a space after each colon and comma."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, list):
        return "[" + ", ".join(map(document_text, tree)) + "]"
    return "{" + ", ".join(f"{encode_basestring(key)}: {document_text(tree[key])}" for key in tree) + "}"


def value_tree(kind: int, data: bytes, at: int) -> Tree:
    """One value of a document; `at` is where its bytes begin.

    Raises:
        MalformedError: When its kind is not known; damaged bytes may raise IndexError, ValueError or `struct.error` as well.
    """
    if kind == _STRING:
        size = data[at]
        if size < 0x80:
            at += 1
        else:
            size, at = read_length(data, at)
        return encode_basestring(_slice(data, at, size).decode())
    if kind in _NUMBERS:
        return str(_NUMBERS[kind].unpack_from(data, at)[0])
    if kind == _DOUBLE:
        return double_text(_FLOAT.unpack_from(data, at)[0])
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, at)
    if kind == _OPAQUE:
        size, start = read_length(data, at + 1)
        return _opaque(data[at], _slice(data, start, size))
    raise MalformedError("an unknown type")


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise MalformedError("beyond the end")
    return data[at : at + size]


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """A length in groups of seven bits, the lowest first, and where it ends."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return size, at
        shift += 7
        if shift > 28:
            raise MalformedError("an endless length")


def _container(kind: int, data: bytes, at: int) -> Tree:
    is_large = kind in {_LARGE_OBJECT, _LARGE_ARRAY}
    has_keys = kind in {_SMALL_OBJECT, _LARGE_OBJECT}
    code, width = ("I", 4) if is_large else ("H", 2)
    count, _ = struct.unpack_from("<" + 2 * code, data, at)
    keys_at = at + 2 * width
    values_at = keys_at + count * (width + 2) * has_keys
    if values_at + count * (width + 1) > len(data):
        raise MalformedError("beyond the end")
    values = [
        value_tree(kind, data, at + place) if kind not in _INLINE else _entry(kind, place, data, at, is_large=is_large)
        for kind, place in _places(data, values_at, count, "B" + code)
    ]
    if not has_keys:
        return values
    places = _places(data, keys_at, count, code + "H")
    if places and at + sum(places[-1]) > len(data):
        raise MalformedError("beyond the end")
    keys = [data[at + start : at + start + size].decode() for start, size in places]
    return dict(zip(keys, values, strict=True))


def _places(data: bytes, at: int, count: int, codes: str) -> list[tuple[int, int]]:
    shape = _pair(codes)
    return list(shape.iter_unpack(data[at : at + count * shape.size]))


@lru_cache
def _pair(codes: str) -> struct.Struct:
    return struct.Struct("<" + codes)


def _entry(kind: int, place: int, data: bytes, at: int, *, is_large: bool) -> Tree:
    """The value of a table's entry: the place is the value itself when that fits."""
    if kind == _LITERAL:
        return _LITERALS[place & 0xFF]
    if kind in {_INT16, _INT32} and (is_large or kind == _INT16):
        bits = 16 if kind == _INT16 else 32
        place &= (1 << bits) - 1
        return str(place - (1 << bits) if place >> (bits - 1) else place)
    if kind == _UINT16 or (kind == _UINT32 and is_large):
        return str(place)
    return value_tree(kind, data, at + place)


# ------------------------------------------------------------ values SQL put into a document


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        return _decimal(data)
    if kind in {_DATE, _TIME, _DATETIME, _TIMESTAMP}:
        (packed,) = _NUMBERS[9].unpack(data)
        return f'"{_moment(kind, packed)}"'
    written = base64.b64encode(data).decode()
    broken = "\n".join(written[at : at + _BASE64_LINE] for at in range(0, len(written), _BASE64_LINE))
    return encode_basestring(f"base64:type{kind}:{broken}")


def _decimal(data: bytes) -> str:
    precision, scale = data[0], data[1]
    octets = np.frombuffer(data, np.uint8, offset=2).reshape(1, -1)
    negative, groups = read_groups(octets, precision, scale)
    return str(text_of(negative, groups, precision - scale, np.ones(1, np.bool_))[0])


def _moment(kind: int, packed: int) -> str:
    sign, packed = "-" * (packed < 0), abs(packed)
    whole, fraction = packed >> 24, packed & 0xFFFFFF
    minute, second = whole >> 6 & 63, whole & 63
    if kind == _TIME:
        return f"{sign}{whole >> 12 & 1023:02d}:{minute:02d}:{second:02d}.{fraction:06d}"
    year, month = divmod(whole >> 22, 13)
    date = f"{year:04d}-{month:02d}-{whole >> 17 & 31:02d}"
    return date if kind == _DATE else f"{date} {whole >> 12 & 31:02d}:{minute:02d}:{second:02d}.{fraction:06d}"
