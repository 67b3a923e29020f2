"""Record batches are decoded by columns to the same records as by kafka-python."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder
from kafka.record.memory_records import MemoryRecords

from replicator_source_kafka.record_batches.decoding import (
    OldFormatError,
    between,
    committed,
    concatenated,
    read_batches,
    record_blocks,
    records_of,
)
from replicator_source_kafka.record_batches.record_fields import CorruptBatchError
from replicator_source_kafka.record_batches.record_headers import header

contents = st.none() | st.binary(max_size=300)
records = st.lists(
    st.tuples(
        st.integers(0, 1 << 41),
        contents,
        contents,
        st.lists(st.tuples(st.sampled_from(["", "a", "ab", "é"]), st.binary(max_size=9))),
    ),
    min_size=1,
    max_size=30,
)


def batch_of(
    content: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]], codec: int, offset: int
) -> bytes:
    builder = MemoryRecordsBuilder(2, codec, 1 << 24)
    for timestamp, key, value, headers in content:
        assert builder.append(timestamp, key, value, headers) is not None
    builder.close()
    return at(offset, builder)


def at(offset: int, builder: MemoryRecordsBuilder) -> bytes:
    """The batch as a broker stores it; its first offset is not part of the checksum."""
    return offset.to_bytes(8, "big") + bytes(builder.buffer())[8:]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(records, st.sampled_from([0, 1, 4])), max_size=4), st.integers(0, 1 << 40))
def test_columns_equal_what_the_client_reads(
    content: list[tuple[list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]], int]], offset: int
) -> None:
    data = b"".join(batch_of(batch, codec, offset + 100 * i) for i, (batch, codec) in enumerate(content))
    expected = [
        (record.offset, record.timestamp, record.key, record.value) for batch in MemoryRecords(data) for record in batch
    ]
    found = records_of(list(read_batches(data)), "t", 3)
    columns = (found.offset.tolist(), found.timestamp.tolist(), found.key.to_pylist(), found.value.to_pylist())
    assert list(zip(*columns, strict=True)) == expected
    assert (found.topic, found.partition) == ("t", 3)
    headers = [record.headers for batch in MemoryRecords(data) for record in batch]
    for name in {name for record in headers for name, _ in record}:
        wanted = [dict(record).get(name) for record in headers]
        assert found.headers is not None
        assert header(found.headers, name.encode()).to_pylist() == wanted
    assert (found.headers is None) == (not any(headers))


def plain_batch(count: int = 3, offset: int = 10) -> bytes:
    return batch_of([(1000 + i, b"k%d" % i, b"v" * i, []) for i in range(count)], 0, offset)


@given(st.integers(0, 200))
def test_an_incomplete_batch_is_left_out(kept: int) -> None:
    whole, cut = plain_batch(), plain_batch(offset=13)
    found = list(read_batches(whole + cut[: min(kept, len(cut) - 1)]))
    assert [batch.base_offset for batch in found] == [10]


@given(st.integers(21, 60), st.integers(1, 255))
def test_a_changed_byte_is_an_error(place: int, difference: int) -> None:
    data = bytearray(plain_batch())
    data[place] ^= difference
    with pytest.raises(CorruptBatchError):
        list(read_batches(bytes(data)))


def test_a_batch_in_an_older_format_is_an_error() -> None:
    builder = MemoryRecordsBuilder(1, 0, 1 << 20)
    builder.append(1000, b"k", b"v", [])
    builder.close()
    with pytest.raises(OldFormatError):
        list(read_batches(bytes(builder.buffer())))


def transactional(offset: int, producer: int, value: bytes) -> bytes:
    builder = MemoryRecordsBuilder(
        2, 0, 1 << 20, transactional=True, producer_id=producer, producer_epoch=0, base_sequence=0
    )
    builder.append(1000, b"k", value, [])
    builder.close()
    return at(offset, builder)


def test_records_of_a_transaction_that_was_rolled_back_are_left_out_and_others_kept() -> None:
    data = transactional(5, 1, b"one") + transactional(6, 2, b"two") + plain_batch(2, 7) + transactional(9, 1, b"three")
    kept = committed(list(read_batches(data)), [(1, 9), (2, 6)])
    assert records_of(kept, "t", 0).offset.tolist() == [5, 7, 8]


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(1, 400))
def test_blocks_contain_every_record_once_and_have_about_the_requested_size(sizes: list[int], most_bytes: int) -> None:
    batches = list(read_batches(b"".join(plain_batch(size, 10 * i) for i, size in enumerate(sizes))))
    blocks = list(record_blocks(batches, "t", 0, most_bytes))
    joined = concatenated(blocks, "t", 0)
    whole = records_of(batches, "t", 0)
    assert joined.offset.tolist() == whole.offset.tolist()
    assert joined.value.to_pylist() == whole.value.to_pylist()
    a_batch = max((len(batch.unpacked()) for batch in batches), default=0)
    counts = [len(block) for block in blocks]
    assert len(blocks) >= sum(len(b.unpacked()) for b in batches) / (most_bytes + a_batch)
    assert 0 not in counts


def test_a_range_is_selected_by_offsets_not_by_indexes() -> None:
    data = plain_batch(3, 10) + plain_batch(3, 20)
    found = records_of(list(read_batches(data)), "t", 0)
    assert between(found, 11, 21).offset.tolist() == [11, 12, 20]
    assert between(found, 13, 20).offset.tolist() == []
    parts = [between(found, 0, 12), between(found, 12, 12), between(found, 12, 99)]
    assert concatenated(parts, "t", 0).value.to_pylist() == found.value.to_pylist()
    assert len(concatenated([], "t", 0)) == 0
