"""Record batches as a broker sends them → columns, without a Python object for each record.

A batch's header tells how many records it has; each record tells its length, so their places are found one after
another (the only loop over records, a few additions each). Everything behind that is done for all records at once.
Layout: Kafka's protocol guide, "Record Batch", magic 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.compression import decompress
from replicator_source_kafka.records import Records

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END: Final = 12
_CRC_END: Final = 21
_MAGIC: Final = 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ABORT: Final = b"\x00\x00"

Bytes = npt.NDArray[np.uint8]


class CorruptBatchError(ValueError):
    """The bytes are no record batch, or not the one that was sent."""


class OldFormatError(ValueError):
    """The batch is from before Kafka 0.11."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch: what its header says, and its records, decompressed."""

    base_offset: int
    next_offset: int
    count: int
    attributes: int
    first_timestamp: int
    max_timestamp: int
    producer: int
    body: bytes | memoryview

    @property
    def is_control(self) -> bool:
        """Whether it holds the end of a transaction instead of records."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether its records belong to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def ends_in_abort(self) -> bool:
        """Whether it is the end of a transaction that was rolled back."""
        (start,) = record_starts(self.body, 1)
        fields = _RecordFields.read(np.frombuffer(self.body, np.uint8), np.array([start]))
        at = int(fields.key_start[0])
        return bytes(self.body[at + 2 : at + 4]) == _ABORT


def read_batches(data: bytes) -> Iterator[RecordBatch]:
    """The whole batches in a fetch response's bytes; one that is cut off at the end is left out.

    Raises:
        CorruptBatchError: When a checksum is wrong.
        OldFormatError: When a batch is from before Kafka 0.11.
    """
    view, at = memoryview(data), 0
    while at + _LENGTH_END <= len(view):
        length = int.from_bytes(view[at + 8 : at + _LENGTH_END], "big", signed=True)
        end = at + _LENGTH_END + length
        if end > len(view):
            return
        if view[at + 16] < _MAGIC:
            raise OldFormatError("a record batch in a format from before Kafka 0.11")
        yield _read_batch(view[at:end])
        at = end


def _read_batch(view: memoryview) -> RecordBatch:
    from crc32c import crc32c

    base, _, _, _, crc, attributes, last, first_time, max_time, producer, _, _, count = _HEADER.unpack_from(view)
    if crc32c(view[_CRC_END:]) != crc:
        raise CorruptBatchError("a record batch with a wrong checksum")
    body = decompress(attributes & _CODEC, view[_HEADER.size :])
    return RecordBatch(base, base + last + 1, count, attributes, first_time, max_time, producer, body)


def committed(batches: Sequence[RecordBatch], aborted: Sequence[tuple[int, int]]) -> list[RecordBatch]:
    """The batches whose records count: no ends of transactions, nothing of those that were rolled back.

    Args:
        batches: In the order of the log.
        aborted: (producer, first offset) of the transactions that were rolled back, as the broker tells.
    """
    waiting = sorted(aborted, key=lambda pair: pair[1])
    rolling_back: set[int] = set()
    kept = []
    for batch in batches:
        while waiting and waiting[0][1] < batch.next_offset:
            rolling_back.add(waiting.pop(0)[0])
        if batch.is_control:
            if batch.producer in rolling_back and batch.ends_in_abort:
                rolling_back.discard(batch.producer)
        elif not (batch.is_transactional and batch.producer in rolling_back):
            kept.append(batch)
    return kept


def records_of(batches: Sequence[RecordBatch], topic: str, partition: int) -> Records:
    """The records of some batches of one partition."""
    data = b"".join(batch.body for batch in batches)
    starts, base = [], 0
    for batch in batches:
        starts.append(np.array(record_starts(batch.body, batch.count), np.int64) + base)
        base += len(batch.body)
    counts = np.array([batch.count for batch in batches], np.int64)
    fields = _RecordFields.read(np.frombuffer(data, np.uint8), np.concatenate([np.empty(0, np.int64), *starts]))

    def of_batch(values: list[int]) -> Int64s:
        return np.repeat(np.array(values, np.int64), counts)

    created = of_batch([batch.first_timestamp for batch in batches]) + fields.timestamp_delta
    appended = of_batch([batch.max_timestamp for batch in batches])
    by_broker = of_batch([batch.attributes & _APPEND_TIME for batch in batches]) != 0
    buffer = pa.py_buffer(data)
    return Records(
        topic,
        partition,
        of_batch([batch.base_offset for batch in batches]) + fields.offset_delta,
        np.where(by_broker, appended, created),
        _slices(buffer, fields.key_start, fields.key_length),
        _slices(buffer, fields.value_start, fields.value_length),
    )


def between(records: Records, begin: int, end: int) -> Records:
    """Those with offsets from `begin` up to, not including, `end`."""
    low, high = np.searchsorted(records.offset, (begin, end))
    return records.slice(int(low), int(high))


def concatenated(parts: Sequence[Records], topic: str, partition: int) -> Records:
    """Some records of one partition behind each other."""
    nothing = np.empty(0, np.int64)
    return Records(
        topic,
        partition,
        np.concatenate([nothing, *(part.offset for part in parts)]),
        np.concatenate([nothing, *(part.timestamp for part in parts)]),
        pa.concat_arrays([pa.array([], pa.binary()), *(part.key for part in parts)]),
        pa.concat_arrays([pa.array([], pa.binary()), *(part.value for part in parts)]),
    )


def record_starts(body: bytes | memoryview, count: int) -> list[int]:
    """Where each record's fields begin, behind its length.

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
class _RecordFields:
    """Fields of records, one array each; a length of -1 stands for null."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key_start: Int64s
    key_length: Int64s
    value_start: Int64s
    value_length: Int64s

    @classmethod
    def read(cls, data: Bytes, starts: Int64s) -> _RecordFields:
        """Read the fields of the records that begin at `starts`, behind their lengths."""
        timestamp, at = _varints(data, starts + 1)  # one byte of attributes, unused
        offset, at = _varints(data, at)
        key_length, key = _varints(data, at)
        value_length, value = _varints(data, key + np.maximum(key_length, 0))
        return cls(timestamp, offset, key, key_length, value, value_length)


def _varints(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s]:
    """The zigzag-coded number at each place, and the place behind it."""
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


def _slices(buffer: pa.Buffer, start: Int64s, length: Int64s) -> pa.BinaryArray:
    """Pieces of a buffer as an array: cut the whole buffer into gaps and pieces, and take the pieces."""
    if not len(start):
        return pa.array([], pa.binary())
    size = np.maximum(length, 0)
    borders = np.zeros(2 * len(start) + 1, np.int64)
    borders[1:-1:2] = start
    borders[2::2] = start + size
    if int(borders[-1]) > buffer.size:
        raise CorruptBatchError("a record is longer than its batch")
    cut = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(start), [None, pa.py_buffer(borders), buffer])
    places = pa.array(np.arange(1, 2 * len(start), 2), mask=length < 0)
    return cut.take(places).cast(pa.binary())
