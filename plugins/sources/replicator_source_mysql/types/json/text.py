"""Binary JSON directly as the server's text, for the shapes that nearly all documents have; others are read into the tree.

The names of an object are stored before its values as one block of bytes, which repeats from row to row: its text is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring

import pyarrow as pa

from replicator_source_mysql.types.json.binary import MalformedError, document_text, read_document, value_tree
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy

_SMALL_OBJECT, _SMALL_ARRAY, _LITERAL, _INT16, _UINT16, _STRING = 0, 2, 4, 5, 6, 12
_LITERALS = ("null", "true", "false")
_COUNT, _PAIR = struct.Struct("<HH"), struct.Struct("<HH")
_HEAD, _NAME, _VALUE = 4, 4, 3
_LONG = 0x80
"""The first byte of a string's size, when it has more than one."""
_MOST_NAMES = 4096
_HINT = "report it with the server's version; leave the column out to go on meanwhile"
_names_of: dict[tuple[bytes, bytes], tuple[str, ...]] = {}


def documents(raw: pa.BinaryArray, policy: ColumnPolicy) -> pa.StringArray:
    """The documents as text, NULL kept. Equal documents are read once; a tree leaves only a loop.

    Raises:
        DataError: When a value is no binary JSON.
    """
    seen: dict[bytes | None, str | None] = {None: None}
    texts: list[str | None] = []
    try:
        for data in raw.to_pylist():
            if data not in seen:
                seen[data] = text_of_document(data)
            texts.append(seen[data])
    except MalformedError:
        raise policy.error("bytes that are no binary JSON", code="RPL-3738", hint=_HINT) from None
    return pa.array(texts, pa.string())


def text_of_document(data: bytes) -> str:
    """The text of a document, as `document_text(read_document(data))` gives it.

    Raises:
        MalformedError: When the bytes are no document.
    """
    if not data or data[0] not in (_SMALL_OBJECT, _SMALL_ARRAY):
        return document_text(read_document(data))
    parts: list[str] = []
    try:
        _container(data[0], data, 1, parts.append)
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError, ValueError):
        raise MalformedError("not binary JSON") from None
    return "".join(parts)


def _container(kind: int, data: bytes, at: int, put: Callable[[str], None]) -> None:
    """Put an object's or array's text; its values' table begins after the count and the names' table."""
    count, _ = _COUNT.unpack_from(data, at)
    if kind == _SMALL_OBJECT:
        values = at + _HEAD + _NAME * count
        names, close, nothing = _names(data, at, count, values) if count else (), "}", "{}"
    else:
        values = at + _HEAD
        names, close, nothing = ("[", *(", ",) * (count - 1)), "]", "[]"
    if not count:
        put(nothing)
        return
    table = _table(count).unpack_from(data, values)
    for name, value_kind, place in zip(names, table[::2], table[1::2], strict=True):
        put(name)
        _value(value_kind, place, data, at, put)
    put(close)


def _value(kind: int, place: int, data: bytes, at: int, put: Callable[[str], None]) -> None:
    """Put one entry of a container's table: small values are in it, others `place` bytes after the container's start."""
    if kind == _STRING and data[at + place] < _LONG:
        size, start = data[at + place], at + place + 1
        if start + size > len(data):
            raise MalformedError("beyond the end")
        put(encode_basestring(data[start : start + size].decode()))
    elif kind == _INT16:
        put(str(place - 0x10000 if place > 0x7FFF else place))
    elif kind == _UINT16:
        put(str(place))
    elif kind == _LITERAL:
        put(_LITERALS[place & 0xFF])
    elif kind in (_SMALL_OBJECT, _SMALL_ARRAY):
        _container(kind, data, at + place, put)
    else:
        put(document_text(value_tree(kind, data, at + place)))


def _names(data: bytes, at: int, count: int, values: int) -> tuple[str, ...]:
    """The text before each value: brace or comma, the name, a colon."""
    last, size = _PAIR.unpack_from(data, values - _NAME)
    block = data[at + _HEAD : values], data[values + _VALUE * count : at + last + size]
    found = _names_of.get(block)
    if found is None:
        least = values + _VALUE * count - at
        places = list(_PAIR.iter_unpack(block[0]))
        if at + last + size > len(data) or any(place < least or place + n > last + size for place, n in places):
            raise MalformedError("names outside of the container")
        names = [encode_basestring(data[at + place : at + place + n].decode()) for place, n in places]
        found = tuple(f"{', ' if number else '{'}{name}: " for number, name in enumerate(names))
        if len(_names_of) >= _MOST_NAMES:
            _names_of.clear()
        _names_of[block] = found
    return found


@lru_cache
def _table(count: int) -> struct.Struct:
    return struct.Struct("<" + "BH" * count)
