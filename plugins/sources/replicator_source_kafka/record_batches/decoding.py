"""Decodes record batches into columns, without a Python object for each record.

Layout: Kafka's protocol guide, "Record Batch", magic 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s
from replicator_source_kafka.record_batches.compression import decompress
from replicator_source_kafka.record_batches.record_fields import CorruptBatchError, RecordFields, record_starts, slices
from replicator_source_kafka.records import Records

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_END: Final = 12
_CRC_END: Final = 21
_MAGIC: Final = 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ABORT: Final = b"\x00\x00"


class OldFormatError(ValueError):
    """The batch is from before Kafka 0.11."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch: the fields of its header, and its records as received, possibly compressed."""

    base_offset: int
    next_offset: int
    count: int
    attributes: int
    first_timestamp: int
    max_timestamp: int
    producer: int
    epoch: int
    packed: memoryview

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
        body = self.unpacked()
        (start,) = record_starts(body, 1)
        fields = RecordFields.read(np.frombuffer(body, np.uint8), np.array([start]))
        at = int(fields.key_start[0])
        return bytes(body[at + 2 : at + 4]) == _ABORT

    def unpacked(self) -> bytes | memoryview:
        """Its records, decompressed at each call."""
        return decompress(self.attributes & _CODEC, self.packed)


def read_batches(data: bytes) -> Iterator[RecordBatch]:
    """The complete batches in a fetch response; an incomplete one at the end is left out.

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

    base, _, epoch, _, crc, attributes, last, first_time, max_time, producer, _, _, count = _HEADER.unpack_from(view)
    if crc32c(view[_CRC_END:]) != crc:
        raise CorruptBatchError("a record batch with a wrong checksum")
    records = view[_HEADER.size :]
    return RecordBatch(base, base + last + 1, count, attributes, first_time, max_time, producer, epoch, records)


def committed(batches: Sequence[RecordBatch], aborted: Sequence[tuple[int, int]]) -> list[RecordBatch]:
    """The batches with committed records: no control batches, none of rolled back transactions.

    Args:
        batches: In the order of the log.
        aborted: (producer, first offset) of the rolled back transactions, from the broker's answer.
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


def record_blocks(batches: Iterable[RecordBatch], topic: str, partition: int, most_bytes: int) -> Iterator[Records]:
    """The records of some batches of one partition, in blocks of about `most_bytes` decompressed, one in memory at a time."""
    block, bodies, size = [], [], 0
    for batch in batches:
        body = batch.unpacked()
        block.append(batch)
        bodies.append(body)
        size += len(body)
        if size >= most_bytes:
            yield _columns(block, bodies, topic, partition)
            block, bodies, size = [], [], 0
    if block:
        yield _columns(block, bodies, topic, partition)


def records_of(batches: Sequence[RecordBatch], topic: str, partition: int) -> Records:
    """The records of some batches of one partition."""
    return _columns(batches, [batch.unpacked() for batch in batches], topic, partition)


def _columns(
    batches: Sequence[RecordBatch], bodies: Sequence[bytes | memoryview], topic: str, partition: int
) -> Records:
    data = b"".join(bodies)
    starts, base = [], 0
    for batch, body in zip(batches, bodies, strict=True):
        starts.append(np.array(record_starts(body, batch.count), np.int64) + base)
        base += len(body)
    counts = np.array([batch.count for batch in batches], np.int64)
    fields = RecordFields.read(np.frombuffer(data, np.uint8), np.concatenate([np.empty(0, np.int64), *starts]))

    def of_batch(values: list[int]) -> Int64s:
        return np.repeat(np.array(values, np.int64), counts)

    created = of_batch([batch.first_timestamp for batch in batches]) + fields.timestamp_delta
    appended = of_batch([batch.max_timestamp for batch in batches])
    by_broker = of_batch([batch.attributes & _APPEND_TIME for batch in batches]) != 0
    buffer = pa.py_buffer(data)
    at = fields.header_start
    ends = np.append(fields.start[1:], len(data)) if len(at) else at
    has_headers = bool(np.frombuffer(data, np.uint8)[at].any())  # a count of zero is a zero byte
    return Records(
        topic,
        partition,
        of_batch([batch.base_offset for batch in batches]) + fields.offset_delta,
        np.where(by_broker, appended, created),
        slices(buffer, fields.key_start, fields.key_length),
        slices(buffer, fields.value_start, fields.value_length),
        slices(buffer, at, ends - at) if has_headers else None,
    )


def between(records: Records, begin: int, end: int) -> Records:
    """The records with offsets from `begin` up to, not including, `end`."""
    low, high = np.searchsorted(records.offset, (begin, end))
    return records.slice(int(low), int(high))


def concatenated(parts: Sequence[Records], topic: str, partition: int) -> Records:
    """Records of one partition, concatenated in the given order."""
    nothing = np.empty(0, np.int64)
    return Records(
        topic,
        partition,
        np.concatenate([nothing, *(part.offset for part in parts)]),
        np.concatenate([nothing, *(part.timestamp for part in parts)]),
        pa.concat_arrays([pa.array([], pa.binary()), *(part.key for part in parts)]),
        pa.concat_arrays([pa.array([], pa.binary()), *(part.value for part in parts)]),
        _headers(parts),
    )


def _headers(parts: Sequence[Records]) -> pa.BinaryArray | None:
    if all(part.headers is None for part in parts):
        return None
    columns = (pa.nulls(len(part), pa.binary()) if part.headers is None else part.headers for part in parts)
    return pa.concat_arrays(list(columns))
