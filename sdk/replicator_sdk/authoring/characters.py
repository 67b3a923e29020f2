"""Writes the text of whole columns as matrices of ASCII characters, a row for each value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes, bounds_of, variable_width
from replicator_sdk.batch import Int64s

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_DASHES = frozenset({8, 13, 18, 23})
_HEX_PLACES = [place for place in range(36) if place not in _DASHES]


def matrix_rows(
    kind: pa.DataType, matrix: Bytes, *, keep: Bools | None = None, present: Bools | None = None
) -> pa.Array:
    """Returns a binary or string array whose values are the rows of a matrix of bytes.

    Args:
        kind: As in `variable_width`.
        matrix: A row for each value; that of a NULL is anything.
        keep: Which bytes of the matrix the values have, of the same shape; None: all.
        present: Which values are not NULL; None: all.
    """
    if keep is not None:
        keep = keep if present is None else keep & present[:, None]
        return variable_width(kind, matrix[keep], bounds_of(keep.sum(axis=1)), present)
    sizes = np.full(len(matrix), matrix.shape[1])
    if present is not None and not present.all():
        matrix, sizes = matrix[present], sizes * present
    return variable_width(kind, matrix.reshape(-1), bounds_of(sizes), present)


def write_digits(matrix: Bytes, at: int, width: int, values: Int64s) -> None:
    """Writes non-negative numbers into a matrix of characters, as `width` decimal digits from column `at` on.

    Higher digits than those are cut off.
    """
    for place in range(at + width - 1, at - 1, -1):
        values, digit = np.divmod(values, 10)
        matrix[:, place] = digit + ord("0")


def uuid_text(octets: Bytes, present: Bools | None = None) -> pa.StringArray:
    """Returns UUIDs in their form of 36 characters, in lower case.

    Args:
        octets: A row of 16 bytes for each value; that of a NULL is anything.
        present: Which values are not NULL; None: all.
    """
    text = np.full((len(octets), 36), ord("-"), np.uint8)
    text[:, _HEX_PLACES] = _HEX[octets].reshape(-1, 32)
    return matrix_rows(pa.string(), text, present=present)
