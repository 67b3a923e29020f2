"""The offset file has the documented layout, and damage never goes unnoticed."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.errors import BugError, NeedsUserError
from replicator_state import SavedOffset
from replicator_state.offsets.offset_format import UnreadableError, decode, encode
from tests.state.stores import START, offset

_MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))
_OFFSETS = st.builds(
    SavedOffset,
    st.integers(0, 2**63 - 1),
    st.dictionaries(st.text(max_size=20), st.binary(max_size=40), max_size=5),
    _MOMENTS,
    st.integers(0, 2**40),
    values=st.dictionaries(st.text(max_size=20), st.integers(0, 2**63 - 1), max_size=4),
)


def test_the_file_begins_with_the_seeds_big_endian_layout() -> None:
    content = encode(SavedOffset(258, {"b": b"\x01\x02", "a": b""}, START, epoch=7))
    seeds = "0000000000000102000000020000000161000000000000000162000000020102"
    assert content.hex().startswith(seeds)
    assert content.hex()[len(seeds) :].startswith("0000000000000007"), (
        "the epoch follows the fields of the documented layout"
    )


@given(_OFFSETS)
def test_a_reader_that_knows_only_the_seed_reads_number_and_fields(saved: SavedOffset) -> None:
    assert _read_as_the_seed_says(encode(saved)) == (saved.sequence_number, saved.fields)


@given(_OFFSETS)
def test_what_was_encoded_is_decoded(saved: SavedOffset) -> None:
    assert decode(encode(saved)) == saved


@given(_OFFSETS)
def test_a_file_of_version_1_has_no_numbers_of_values(saved: SavedOffset) -> None:
    whole = encode(replace(saved, values={}))[:-32]
    body = whole[:-16] + struct.pack(">i", 1) + whole[-8:]
    assert decode(body + hashlib.sha256(body).digest()) == replace(saved, values={})


@given(_OFFSETS, st.data())
def test_a_file_truncated_anywhere_or_with_more_after_it_is_unreadable(saved: SavedOffset, data: st.DataObject) -> None:
    content = encode(saved)
    length = data.draw(st.integers(0, len(content) - 1))
    for damaged in (content[:length], content + data.draw(st.binary(min_size=1, max_size=9)), content[length + 1 :]):
        with pytest.raises(UnreadableError):
            decode(damaged)


def test_every_single_flipped_bit_is_noticed() -> None:
    content = encode(offset(77))
    for place in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(UnreadableError):
            decode(bytes(damaged))


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_unreadable_and_nothing_worse(content: bytes) -> None:
    with pytest.raises(UnreadableError):
        decode(content)


@given(st.binary(max_size=120), st.sampled_from([1, 2]))
def test_a_right_checksum_over_wrong_lengths_is_unreadable(body: bytes, version: int) -> None:
    whole = body + struct.pack(">qqi8s", 1, 1, version, b"RPLOFFST")
    content = whole + hashlib.sha256(whole).digest()
    try:
        saved = decode(content)
    except UnreadableError:
        return
    assert _read_as_the_seed_says(content) == (saved.sequence_number, saved.fields)


@pytest.mark.parametrize(
    "fields", ["0000000161 00000000 0000000161 00000000", "00000001ff 00000000 0000000161 00000000"]
)
def test_keys_that_are_repeated_or_are_no_text_are_unreadable(fields: str) -> None:
    body = struct.pack(">qi", 1, 2) + bytes.fromhex(fields) + struct.pack(">qqi8s", 1, 1, 1, b"RPLOFFST")
    with pytest.raises(UnreadableError, match="key"):
        decode(body + hashlib.sha256(body).digest())


def test_a_whole_file_of_a_later_version_is_refused_rather_than_passed_over() -> None:
    body = encode(offset(1))[:-32]
    body = body[:-12] + struct.pack(">i", 3) + body[-8:]
    with pytest.raises(NeedsUserError, match="RPL-7160"):
        decode(body + hashlib.sha256(body).digest())


@pytest.mark.parametrize(
    "wrong",
    [
        SavedOffset(-1, {}, START),
        SavedOffset(2**63, {}, START),
        SavedOffset(1, {}, START.replace(tzinfo=None)),
        SavedOffset(1, {"lsn": "text"}, START),  # type: ignore[dict-item]
        SavedOffset(1, {3: b""}, START),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_be_stored_exactly_is_refused(wrong: SavedOffset) -> None:
    with pytest.raises(BugError, match="RPL-7111"):
        encode(wrong)


def test_another_time_zone_is_the_same_moment() -> None:
    eastern = START.astimezone(timezone(timedelta(hours=9))) + timedelta(microseconds=1)
    assert decode(encode(SavedOffset(1, {}, eastern))).saved_at == eastern


def _read_as_the_seed_says(content: bytes) -> tuple[int, dict[str, bytes]]:
    """A reader that knows the documented layout only, without the checksum."""
    number, count = struct.unpack_from(">qi", content)
    place, parts = 12, []
    for _ in range(2 * count):
        (length,) = struct.unpack_from(">i", content, place)
        parts.append(content[place + 4 : place + 4 + length])
        place += 4 + length
    return number, {k.decode(): v for k, v in zip(parts[::2], parts[1::2], strict=True)}
