r"""Rows of `COPY … TO STDOUT` in text format, as columns.

Values are separated by tabs, rows by newlines; inside values both are escaped, so separators can be found without
parsing. `\N` is NULL; a backslash escapes the character after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bytes, Int64s
from replicator_sdk.errors import BugError
from replicator_source_postgres.pgoutput.tuples import Cells, gather
from replicator_source_postgres.types.array import escaped_bytes

_TAB, _NEWLINE, _BACKSLASH, _N = b"\t\n\\N"
_MEANING = np.arange(256, dtype=np.uint8)
_MEANING[list(b"bfnrtv")] = list(b"\b\f\n\r\t\v")


def split_columns(rows: Sequence[bytes | memoryview], columns: int) -> list[pa.BinaryArray]:
    """The columns of whole rows, each as the server's text, with NULL.

    Raises:
        BugError: When the rows do not have that many columns.
    """
    data: Bytes = np.frombuffer(b"".join(rows), np.uint8)
    separators = np.flatnonzero((data == _TAB) | (data == _NEWLINE))
    if len(separators) != len(rows) * columns or len(separators) == 0:
        if columns == 0 or not len(rows):
            return [pa.array([], pa.binary())] * columns
        raise BugError(
            "COPY returned another number of columns than was requested",
            code="RPL-3601",
            hint="report it with the server's version",
        )
    starts = np.concatenate([[0], separators[:-1] + 1])
    missing = (separators - starts == 2) & (data[starts] == _BACKSLASH)
    # Read the second byte only where there is one: `\N` is NULL, `\\` one backslash.
    missing[missing] = data[starts[missing] + 1] == _N
    data, starts, ends = _unescaped(data, starts, separators, int(missing.sum()))
    shape, buffer = (len(rows), columns), pa.py_buffer(data)
    first, last, present = starts.reshape(shape), ends.reshape(shape), ~missing.reshape(shape)
    return [
        gather(buffer, Cells(first[:, c], last[:, c], present[:, c], None), None, len(rows)) for c in range(columns)
    ]


def _unescaped(data: Bytes, starts: Int64s, ends: Int64s, nulls: int) -> tuple[Bytes, Int64s, Int64s]:
    """The bytes without escapes, and where the values start and end in them."""
    backslash = data == _BACKSLASH
    if np.count_nonzero(backslash) == nulls:
        return data, starts, ends
    escaped = escaped_bytes(backslash)
    keep = ~backslash | escaped
    place = np.concatenate([[0], np.cumsum(keep)])
    meant = np.where(escaped, _MEANING[data], data)[keep]
    return meant, place[starts], place[ends]
