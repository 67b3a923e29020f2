"""Text in any of MySQL's character sets as UTF-8, a whole column in one call of a codec."""

from __future__ import annotations

import codecs
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import (
    Bools,
    Int64s,
    bounds_of,
    joined_bytes,
    validity,
    variable_width,
)
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.types.values.charset_tables import (
    BIG5_EXTRA,
    MULTI,
    SINGLE,
    UNDEFINED,
    UNITS,
    UPPER_HALF,
    UTF8,
)
from replicator_source_mysql.types.values.out_of_range import ColumnPolicy

_SEPARATORS = (0x1F, 0x1E, 0x1D, 0x1C, *range(1, 9), 0x0B, 0x0C, *range(0x0E, 0x1C), 0x7F, 0x00, 0x09, 0x0A, 0x0D)
"""Control characters, the least likely first. None of them is a part of a longer character in any set of `MULTI`."""
_INVALID_HINT = (
    "fix the rows at the source (its bytes are no text in the column's character set), or leave the column out"
)
_EXTENDED = "replicator-mysql"


def is_utf8(charset: str) -> bool:
    """Whether the set's bytes are UTF-8 as they are."""
    return charset in UTF8


def check(charset: str, column: str, table: str) -> None:
    """Refuse a character set that cannot be decoded.

    Raises:
        NeedsUserError: Naming set, column and table.
    """
    if not any(charset in known for known in (UTF8, SINGLE, UPPER_HALF, MULTI, UNITS)):
        raise NeedsUserError(
            f"column {column!r} has the character set {charset or '(none)'!r}, which is not supported",
            code="RPL-3732",
            table=table,
            hint="convert the column to utf8mb4, or leave it out: list the others under the table's `columns`",
        )


def decode(raw: pa.BinaryArray, charset: str, policy: ColumnPolicy) -> pa.StringArray:
    """The values as text, NULL kept.

    Raises:
        DataError: When some value's bytes are no text in `charset`.
    """
    try:
        if is_utf8(charset):
            return _utf8(raw, ascii_only=charset == "ascii")
        if charset in UNITS:
            return _units(raw, charset)
        return _multi(raw, charset) if charset in MULTI else _single(raw, charset)
    except (UnicodeError, ValueError):
        # Their messages quote the bytes.
        raise policy.error(f"bytes that are no text in {charset}", code="RPL-3733", hint=_INVALID_HINT) from None


def _utf8(raw: pa.BinaryArray, *, ascii_only: bool) -> pa.StringArray:
    text = raw.cast(pa.string())
    if ascii_only and pc.all(pc.string_is_ascii(text)).as_py() is False:
        raise ValueError("not ASCII")
    return text


# ------------------------------------------------------------ one byte a character


def _single(raw: pa.BinaryArray, charset: str) -> pa.StringArray:
    octets, bounds = joined_bytes(raw)
    table, sizes = _table(charset)
    if not len(octets) or (charset != "swe7" and int(octets.max()) < 0x80):
        return variable_width(pa.string(), octets, bounds, validity(raw))
    text, _ = codecs.charmap_decode(octets.tobytes(), "strict", table)
    return _rebuilt(text, sizes[octets], bounds, validity(raw))


@lru_cache
def _table(charset: str) -> tuple[str, Int64s]:
    """The 256 characters of a set, and how many bytes each has in UTF-8."""
    if charset in UPPER_HALF:
        table = "".join(map(chr, range(128))) + UPPER_HALF[charset]
    else:
        codec, patches = SINGLE[charset]
        plain = (bytes([byte]).decode(codec, "replace").replace("\ufffd", UNDEFINED) for byte in range(256))
        table = "".join(patches.get(byte, character) for byte, character in enumerate(plain))
    return table, np.array([len(character.encode()) for character in table], np.int64)


def _rebuilt(text: str, sizes: Int64s, bounds: Int64s, present: Bools) -> pa.StringArray:
    """The values of the joined `text`, given the UTF-8 bytes of each code unit and the unit at which each value begins."""
    encoded = np.frombuffer(text.encode(), np.uint8)
    return variable_width(pa.string(), encoded, bounds_of(sizes)[bounds], present)


# ------------------------------------------------------------ Unicode in two or four bytes


def _units(raw: pa.BinaryArray, charset: str) -> pa.StringArray:
    octets, bounds = joined_bytes(raw)
    codec, dtype = UNITS[charset]
    width = np.dtype(dtype).itemsize
    if (bounds % width).any():
        raise ValueError("half a character")
    units = octets.view(dtype).astype(np.int64)
    surrogate = (units >= 0xD800) & (units <= 0xDFFF)
    if charset == "ucs2" and surrogate.any():
        raise ValueError("a surrogate, which UCS-2 does not have")
    # Half of a pair counts two bytes, so that a pair has its four.
    sizes = 1 + (units >= 0x80) + (units >= 0x800) - surrogate + (units >= 0x10000)
    text = octets.tobytes().decode(codec)
    rebuilt = _rebuilt(text, sizes, bounds // width, validity(raw))
    # A pair that is split over two values was decoded as one character and now ends in the middle of it.
    return rebuilt.cast(pa.binary()).cast(pa.string()) if surrogate.any() else rebuilt


# ------------------------------------------------------------ one to four bytes a character


def _multi(raw: pa.BinaryArray, charset: str) -> pa.StringArray:
    octets, bounds = joined_bytes(raw)
    if not len(octets) or int(octets.max()) < 0x80:
        return variable_width(pa.string(), octets, bounds, validity(raw))
    seen = np.bincount(octets, minlength=256)
    separator = next((byte for byte in _SEPARATORS if not seen[byte]), None)
    if separator is None:
        return _halved(raw, charset)
    values = (raw.fill_null(b"") if raw.null_count else raw).cast(pa.binary())
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), bytes([separator]))[0].as_buffer()
    codec, patches = MULTI[charset]
    text = bytes(joined).decode(codec, _EXTENDED)
    if any(chr(point) in text for point in patches):
        text = text.translate(patches)
    encoded = np.frombuffer(text.encode(), np.uint8)
    ends = np.append(np.flatnonzero(encoded == separator), len(encoded))
    sizes = np.diff(ends, prepend=-1) - 1
    return variable_width(pa.string(), encoded[encoded != separator], bounds_of(sizes), validity(raw))


def _halved(raw: pa.BinaryArray, charset: str) -> pa.StringArray:
    """Every control character occurs: decode each half by itself; a single value needs no separator."""
    if len(raw) > 1:
        middle = len(raw) // 2
        halves = (raw[:middle], raw[middle:])
        return pa.concat_arrays([_multi(half, charset) for half in halves])
    codec, patches = MULTI[charset]
    text = raw[0].as_py().decode(codec, _EXTENDED).translate(patches)
    return pa.array([text], pa.string())


def _extended(error: UnicodeError) -> tuple[str, int]:
    """Characters that MySQL has and Python's codec lacks: the user-defined rows of ujis, the seven of big5.

    Raises:
        UnicodeError: When MySQL does not have them either.
    """
    if isinstance(error, UnicodeDecodeError):
        found = error.object[error.start : error.start + 3]
        if error.encoding == "euc_jp":
            plane = found[:1] == b"\x8f"
            row, cell = (found[plane : plane + 2] + b"\0\0")[:2]
            if 0xF5 <= row <= 0xFE and 0xA1 <= cell <= 0xFE:
                first = 0xE3AC if plane else 0xE000
                return chr(first + (row - 0xF5) * 94 + cell - 0xA1), error.start + 2 + plane
        elif error.encoding == "big5" and found[:2] in BIG5_EXTRA:
            return BIG5_EXTRA[found[:2]], error.start + 2
    raise error


codecs.register_error(_EXTENDED, _extended)
