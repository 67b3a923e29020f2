"""Finds the fields of records in the bytes of a batch, for all records at once.

Each record begins with its length, so the beginnings are found one after another (the only loop over records, a few
additions each). Everything else is arithmetic on arrays. Layout: Kafka's protocol guide, "Record", magic 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.arrow_buffers import Bytes, Int64s, binary_ranges


class CorruptBatchError(ValueError):
    """The bytes are not a valid record batch."""


def record_starts(body: bytes | memoryview, count: int) -> list[int]:
    """Where each record's fields begin, after its length.

    Raises:
        CorruptBatchError: When the lengths do not fit the batch.
    """
    starts, at, size = [], 0, len(body)
    try:
        for _ in range(count):
            byte = body[at]
            at += 1
            length, shift = byte & 0x7F, 7
            while byte >= 0x80:
                byte = body[at]
                at += 1
                length |= (byte & 0x7F) << shift
                shift += 7
            starts.append(at)
            at += length >> 1  # lengths are zigzag-coded and never negative
    except IndexError:
        at = size + 1
    if at > size:
        raise CorruptBatchError("a record batch is shorter than its records")
    return starts


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Fields of records, one array each; a length of -1 means null."""

    start: Int64s
    timestamp_delta: Int64s
    offset_delta: Int64s
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s
    header_start: Int64s

    @classmethod
    def read(cls, data: Bytes, starts: Int64s) -> RecordFields:
        """Read the fields of the records; `starts` are the positions after their lengths."""
        timestamp, at = varints(data, starts + 1)  # one byte of attributes, unused
        offset, at = varints(data, at)
        key_length, key = varints(data, at)
        value_length, value = varints(data, key + np.maximum(key_length, 0))
        header = value + np.maximum(value_length, 0)
        if len(header) and int(header.max()) >= len(data):
            raise CorruptBatchError("a record is longer than its batch")
        return cls(starts, timestamp, offset, key, key_length, value, value_length, header)


def varints(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """The zigzag-coded number at each position, and the position after it."""
    size = len(data)
    if len(at) and int(at.max()) >= size:
        raise CorruptBatchError("a record is longer than its batch")
    byte = data[at].astype(np.uint64)
    number, at = byte & np.uint64(0x7F), at + 1
    longer = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(longer):
        places = at[longer]
        if int(places.max()) >= size or shift > 63:
            raise CorruptBatchError("a number in a record batch does not end")
        byte = data[places].astype(np.uint64)
        number[longer] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        at[longer] += 1
        longer = longer[byte >= 0x80]
        shift += 7
    signed: Any = (number >> np.uint64(1)).astype(np.int64) ^ -(number & np.uint64(1)).astype(np.int64)
    return signed, at


def slices(buffer: pa.Buffer, start: Int64s, length: Int64s) -> pa.BinaryArray:
    """Slices of a buffer as an array, NULL where the length is negative."""
    end = start + np.maximum(length, 0)
    if len(end) and int(end[-1]) > buffer.size:
        raise CorruptBatchError("a record is longer than its batch")
    return binary_ranges(buffer, start, end, present=length >= 0)
