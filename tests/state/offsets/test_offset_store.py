"""Saved offsets are append-only, ordered whatever the clock does, and recoverable."""

from __future__ import annotations

import dataclasses
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_state import OffsetStore, ReplicatorDirectory, Retention
from replicator_state.offsets.offset_format import encode
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry
from tests.state.stores import START, CountingFolder, LostAnswerFolder, offset, offset_files, sequences

AT_ONCE = StoreRetry(0, "test")


def test_no_offset_was_ever_saved(directory: ReplicatorDirectory) -> None:
    assert directory.offsets().latest() is None
    assert directory.offsets().history() == []
    assert directory.offsets().oldest() is None


def test_the_offset_saved_last_is_the_latest_for_every_reader(directory: ReplicatorDirectory) -> None:
    writer = directory.offsets(directory.acquire("r1"))
    for number in range(5):
        stored = writer.save(offset(number, seconds=number))
        assert directory.offsets().latest() == stored
        assert (stored.sequence_number, stored.epoch, stored.recovered_from) == (number, 1, ())
    assert directory.offsets().oldest() == directory.offsets().history()[-1].offset


def test_the_oldest_offset_is_the_oldest_that_can_be_read(directory: ReplicatorDirectory, folder: Folder) -> None:
    for number in range(3):
        directory.offsets().save(offset(number, seconds=number))
    folder.replace(offset_files(folder)[0], b"damaged")
    oldest = directory.offsets().oldest()
    assert oldest is not None
    assert oldest.sequence_number == 1


def test_the_name_is_the_time_of_saving_in_microseconds(directory: ReplicatorDirectory, folder: Folder) -> None:
    directory.offsets().save(offset(1))
    assert offset_files(folder) == [f"offset.{int(START.timestamp() * 1_000_000):020d}"]


def test_offsets_stay_in_order_when_the_clock_steps_back_also_over_a_restart(
    directory: ReplicatorDirectory, folder: Folder
) -> None:
    for number in range(6):
        directory.offsets().save(offset(number, seconds=-3600 * number))
    assert sequences(folder) == list(range(6))
    latest = directory.offsets().latest()
    assert latest is not None
    assert latest.saved_at == START - timedelta(hours=5), "people see the clock as it was"


def test_a_file_is_never_overwritten(directory: ReplicatorDirectory, folder: Folder) -> None:
    first, second = directory.offsets(), directory.offsets()
    first.save(offset(1))
    second.save(offset(2))  # both know the folder now and save at the very same microsecond, unknown to each other
    third = first.save(offset(3, seconds=60))
    content = {name: folder.read(name) for name in offset_files(folder)}
    assert second.save(offset(4, seconds=60)).commit_timestamp == third.commit_timestamp + 1
    assert {name: folder.read(name) for name in content} == content
    assert sequences(folder) == [1, 2, 3, 4]


@pytest.mark.parametrize("damage", ["empty", "half", "flipped"])
def test_an_unreadable_newest_file_falls_back_to_the_one_before_and_says_so(
    directory: ReplicatorDirectory, folder: Folder, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = directory.offsets()
    for number in range(3):
        store.save(offset(number, seconds=number))
    broken = offset_files(folder)[-2:]
    for name in broken:
        content = folder.read(name)
        changed = {"empty": b"", "half": content[: len(content) // 2], "flipped": content[:9] + b"\xff" + content[10:]}
        folder.replace(name, changed[damage])
    with caplog.at_level(logging.WARNING):
        latest = directory.offsets().latest()
    assert latest is not None
    assert latest.sequence_number == 0
    assert [file.name for file in latest.recovered_from] == broken[::-1]
    assert all(name in caplog.text for name in broken)
    entries = directory.offsets().history()
    assert [entry.offset is None for entry in entries] == [True, True, False]
    assert entries[0].problem


def test_truncation_at_every_byte_and_every_flipped_bit_fall_back(local: LocalFolder) -> None:
    store = OffsetStore(local, AT_ONCE)
    store.save(offset(1))
    stored = store.save(offset(2, seconds=1))
    newest = local.path / offset_files(local)[-1]
    whole = newest.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]
    for place in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        damaged.append(bytes(flipped))
    for content in damaged:
        newest.write_bytes(content)
        latest = OffsetStore(local, AT_ONCE).latest()
        assert latest is not None
        assert (latest.sequence_number, [f.name for f in latest.recovered_from]) == (1, [newest.name])
    newest.write_bytes(whole)
    assert OffsetStore(local, AT_ONCE).latest() == stored


def test_unreadable_offsets_are_an_error_and_never_a_fresh_start(
    directory: ReplicatorDirectory, folder: Folder
) -> None:
    directory.offsets().save(offset(1))
    folder.replace(offset_files(folder)[0], b"")
    with pytest.raises(NeedsUserError, match=r"RPL-7110.*Next:"):
        directory.offsets().latest()


def test_saving_goes_on_above_an_unreadable_newest_file(directory: ReplicatorDirectory, folder: Folder) -> None:
    directory.offsets().save(offset(1))
    directory.offsets().save(offset(2, seconds=10))
    folder.replace(offset_files(folder)[-1], b"")
    directory.offsets().save(offset(3, seconds=5))
    latest = directory.offsets().latest()
    assert latest is not None
    assert (latest.sequence_number, latest.recovered_from) == (3, ())


def test_files_of_others_beside_the_offsets_are_left_alone(directory: ReplicatorDirectory, folder: Folder) -> None:
    directory.offsets().save(offset(1))
    for name in ("offset.bak", "offset.00000000000000000009.tmp", "offset.9", "offsets.00000000000000000009"):
        folder.replace(name, b"?")
    latest = directory.offsets().latest()
    assert latest is not None
    assert latest.recovered_from == ()
    assert len(directory.offsets().history()) == 1


def test_a_superseded_run_saves_nothing(directory: ReplicatorDirectory, folder: Folder) -> None:
    old = directory.acquire("old")
    store = directory.offsets(old)
    store.save(offset(1))
    old.release()
    directory.offsets(directory.acquire("new")).save(offset(2, seconds=1))
    with pytest.raises(FencedError, match="RPL-7131"):
        store.save(offset(3, seconds=2))
    assert sequences(folder) == [1, 2]


def test_a_run_superseded_in_the_middle_of_a_save_withdraws_its_file(
    directory: ReplicatorDirectory, folder: Folder
) -> None:
    asked = 0

    def fence() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:  # between the first look and the second the file was written
            raise FencedError("superseded", code="RPL-7131")

    zombie = OffsetStore(folder, AT_ONCE, epoch=1, fence=fence)
    with pytest.raises(FencedError):
        zombie.save(offset(1))
    assert offset_files(folder) == []


def test_a_file_that_a_superseded_run_wrote_after_its_successors_does_not_count(
    directory: ReplicatorDirectory, folder: Folder
) -> None:
    OffsetStore(folder, AT_ONCE, epoch=2).save(offset(20))
    zombie = encode(dataclasses.replace(offset(10), epoch=1))
    folder.create(f"offset.{int((START + timedelta(days=1)).timestamp() * 1_000_000):020d}", zombie)
    latest = directory.offsets().latest()
    assert latest is not None
    assert (latest.sequence_number, latest.epoch) == (20, 2)
    assert "superseded" in latest.recovered_from[0].reason


def test_a_lost_answer_does_not_save_twice(local: LocalFolder) -> None:
    folder = LostAnswerFolder(local.path)
    OffsetStore(folder, StoreRetry(5, "test")).save(offset(1))
    assert folder.lost
    assert sequences(local) == [1]


def test_older_offsets_are_kept_by_count_whatever_their_age(local: LocalFolder) -> None:
    retention = Retention(count=5, age=timedelta(seconds=0), spacing=timedelta(0))
    store = OffsetStore(local, AT_ONCE, retention=retention)
    for number in range(20):
        store.save(offset(number, seconds=number))
    assert sequences(local) == [15, 16, 17, 18, 19]


def test_beyond_the_count_one_offset_a_minute_stays_up_to_the_age(local: LocalFolder) -> None:
    retention = Retention(count=3, age=timedelta(minutes=10), spacing=timedelta(minutes=1))
    store = OffsetStore(local, AT_ONCE, retention=retention)
    for number in range(200):  # one every 10 seconds: 33 minutes
        store.save(offset(number, seconds=10 * number))
    kept = sequences(local)
    assert kept[-3:] == [197, 198, 199]
    minutes = [number // 6 for number in kept[:-3]]
    assert len(set(minutes)) == len(minutes), "at most one a minute"
    assert 9 <= len(minutes) <= 11, "ten minutes back"
    assert min(kept) >= 199 - 66


def test_a_clock_far_ahead_never_deletes_the_newest_offsets(local: LocalFolder) -> None:
    store = OffsetStore(local, AT_ONCE, retention=Retention(count=4, age=timedelta(days=7)))
    for number in range(10):
        store.save(offset(number, seconds=number))
    store.save(offset(10, seconds=10 * 365 * 86400))
    assert sequences(local)[-4:] == [7, 8, 9, 10]


def test_an_old_offset_can_be_loaded_by_its_name_or_number(directory: ReplicatorDirectory) -> None:
    first = directory.offsets().save(offset(1))
    directory.offsets().save(offset(2, seconds=1))
    entries = directory.offsets().history()
    assert [e.offset.sequence_number for e in entries if e.offset] == [2, 1]
    assert directory.offsets().history(limit=1)[0].offset == entries[0].offset
    assert directory.offsets().load(entries[-1].name) == first
    assert directory.offsets().load(str(first.commit_timestamp)) == first
    for wrong in ("offset.17", "../../etc/passwd", "", "9" * 400, "٣"):
        with pytest.raises(NeedsUserError, match="RPL-7112"):
            directory.offsets().load(wrong)


def test_ten_thousand_offsets_cost_a_listing_not_a_reading(local: LocalFolder) -> None:
    local.path.mkdir(parents=True)
    content = encode(offset(0))
    for number in range(10_000):
        (local.path / f"offset.{number:020d}").write_bytes(content)
    local = CountingFolder(local.path)
    started = time.perf_counter()
    store = OffsetStore(local, AT_ONCE)
    assert store.latest() is not None
    latest_seconds = time.perf_counter() - started
    assert (local.reads, local.listings) == (8, 1)
    store.save(offset(1))
    local.reads = local.listings = 0
    for number in range(20):
        store.save(dataclasses.replace(offset(2 + number), saved_at=datetime.now(UTC)))
    assert (local.reads, local.listings) == (0, 0), "a save neither reads nor lists"
    print(f"latest() of 10,000 offsets: {latest_seconds * 1000:.1f} ms")  # noqa: T201
