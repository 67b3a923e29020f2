"""Converts `io.debezium.data.Bits`, which are little-endian bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bytes, joined_bytes, validity
from replicator_sdk.authoring.characters import matrix_rows
from replicator_source_kafka.types.values.byte_arrays import from_base64


def big_endian(raw: pa.Array, length: int) -> pa.BinaryArray:
    """The bits as MySQL returns them: big-endian, in as few bytes as `length` bits need."""
    values = from_base64(raw)
    width = -(-length // 8)
    # Cut or filled at the end with the high bits, then reversed.
    matrix = _left_aligned(values, width)[:, ::-1]
    return matrix_rows(pa.binary(), matrix, present=validity(values))


def as_text(raw: pa.Array, length: int) -> pa.StringArray:
    """The bits as Postgres prints them: `length` digits, the highest first."""
    values = from_base64(raw)
    width = -(-length // 8)
    digits = np.unpackbits(_left_aligned(values, width), axis=1, bitorder="little")[:, :length][:, ::-1] + ord("0")
    return matrix_rows(pa.string(), digits, present=validity(values))


def _left_aligned(values: pa.BinaryArray, width: int) -> Bytes:
    """A matrix of the first `width` bytes of each value, filled with zeros at the right.

    Raises:
        ValueError: When bytes beyond the width are not zero.
    """
    octets, bounds = joined_bytes(values)
    matrix = np.zeros((len(values), width), np.uint8)
    at = bounds[:-1, None] + np.arange(width)[None, :]
    inside = at < bounds[1:, None]
    matrix[inside] = octets[at[inside]]
    if octets.sum(dtype=np.int64) != matrix.sum(dtype=np.int64):
        raise ValueError("more bits than the column has")
    return matrix
