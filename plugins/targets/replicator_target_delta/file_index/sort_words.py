"""Values as unsigned words in the order of the values, so that bounds and keys of every type are compared in one way."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
"""One row for each value, of one to four words; the first word counts most."""

_SIGN: Final = np.uint64(1 << 63)
TEXT_WORDS: Final = (2, 3, 4)
_AT_ONCE: Final = 1 << 16
_LONG_DIGITS: Final = 18  # decimals of more need a second word


def is_ordered(kind: pa.DataType) -> bool:
    """Whether values of `kind` have words, and Delta has bounds for them."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(number or pa.types.is_string(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def to_words(values: pa.Array, skip: int = 0, width: int = TEXT_WORDS[0]) -> Words:
    """The words of `values`: a value that is not larger than another has no larger words.

    Args:
        values: Of an ordered type, without NaN; a NULL has words without a meaning.
        skip: How many bytes at the beginning of all texts are the same, and left out.
        width: How many words a text has.
    """
    if pa.types.is_string(values.type):
        parts = [_of_text(values.slice(at, _AT_ONCE), skip, width) for at in range(0, len(values), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty((0, width), np.uint64)
    if pa.types.is_decimal(values.type):
        return _of_decimals(values)
    if pa.types.is_floating(values.type):
        return _of_floats(pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy())[:, None]
    return _of_integers(pc.fill_null(as_integers(values), 0).to_numpy())[:, None]


def as_integers(values: pa.Array) -> pa.Array:
    """Whole numbers, days and microseconds as 64-bit numbers."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    return values.cast(pa.int64())


def as_texts(words: Words) -> npt.NDArray[Any]:
    """Rows of words as byte strings of the same order, which NumPy can search."""
    return words.astype(">u8").view(f"S{8 * words.shape[1]}").ravel()


def _of_integers(values: npt.NDArray[np.int64]) -> Words:
    return values.view(np.uint64) ^ _SIGN


def _of_floats(values: npt.NDArray[np.float64]) -> Words:
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _of_decimals(values: pa.Array) -> Words:
    """From Arrow's 128-bit numbers, whose lower half comes first."""
    if len(values) == 0:
        return np.empty((0, 1 if values.type.precision <= _LONG_DIGITS else 2), np.uint64)
    start, stop = 2 * values.offset, 2 * (values.offset + len(values))
    halves = np.frombuffer(values.buffers()[1], np.uint64)[start:stop].reshape(-1, 2)
    if values.type.precision <= _LONG_DIGITS:
        return halves[:, :1] ^ _SIGN
    return np.stack([halves[:, 1] ^ _SIGN, halves[:, 0]], axis=1)


def _of_text(values: pa.Array, skip: int, width: int) -> Words:
    """The first bytes of each text after `skip`; UTF-8 sorts as its characters do."""
    size, buffers = len(values), values.buffers()
    if size == 0 or buffers[2] is None or buffers[2].size == 0:
        return np.zeros((size, width), np.uint64)
    ends = np.frombuffer(buffers[1], np.int32)[values.offset : values.offset + size + 1].astype(np.int64)
    data = np.frombuffer(buffers[2], np.uint8)
    places = ends[:-1, None] + skip + np.arange(8 * width)
    content = np.where(places < ends[1:, None], data[np.minimum(places, len(data) - 1)], np.uint8(0))
    return content.view(">u8").astype(np.uint64)
