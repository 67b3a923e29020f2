"""Real SIGKILL, at every named place and at random: what was said to be durable is there, and nothing is half there."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

import replicator_state  # registers the places
from replicator_sdk.failpoint import registered
from replicator_state import OffsetStore, ReplicatorDirectory
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry
from tests.state.processes import kill, start
from tests.state.stores import offset_files, sequences

# What deletes a state is killed in crash/sqlite/commands/test_delete.py.
PLACES = sorted(name for name in registered() if name.startswith("state.") and not name.startswith("state.delete."))
TAKEN_OVER = {"state.adopt.before", "state.adopt.after", "state.offset.taken_over"}  # by a second run
ROUNDS = 6
AT_ONCE = StoreRetry(0, "test")


@pytest.mark.parametrize("place", PLACES)
def test_killed_at_a_named_place_the_next_run_starts_at_once_with_everything_said_durable(
    place: str, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    earlier = 0
    if place in TAKEN_OVER:
        _walk(base)
        earlier = 1
    passes = 1 if earlier or place == "state.lease.claimed" else 3  # a run claims its lease once
    worker = start("walk", str(base), "local", failpoints=f"{place}=kill@{passes}")
    out, _ = worker.communicate(timeout=240)
    assert worker.returncode == -signal.SIGKILL, f"the run never passed {place}"
    said = [line.split() for line in out.splitlines()]
    saved = max((int(line[1]) for line in said if line[0] == "saved"), default=4 * earlier)
    put = max((int(line[1]) for line in said if line[0] == "put"), default=4 * earlier)

    directory = ReplicatorDirectory(str(base), "n", "shop", retry_seconds=0)
    latest = directory.offsets().latest()
    number = latest.sequence_number if latest else 0
    assert number in {saved, saved + 1}
    assert latest is None or latest.recovered_from == ()
    value = directory.states().read("k")
    assert (int(value.value) if value else 0) in {put, put + 1}
    assert value is None or value.recovered_from is None
    begun = time.monotonic()
    lease = directory.acquire("next")
    assert lease.epoch == 2 + earlier
    assert time.monotonic() - begun < 20
    lease.release()
    for life in range(1, 4):  # what a kill leaves may harm a later run than the next
        _walk(base)
        latest = directory.offsets().latest()
        assert latest is not None
        assert (latest.sequence_number, latest.epoch) == (number + 4 * life, 2 + earlier + life)
        assert directory.states().get("k") == str(number + 4 * life).encode()
        assert directory.states().read_status() == {"number": number + 4 * life}
        assert len(LocalFolder(base / "n" / "shop" / "1").names("state-k")) == 2, "files of earlier runs are deleted"


def _walk(base: Path) -> None:
    worker = start("walk", str(base), "local")
    out, _ = worker.communicate(timeout=240)
    assert out.endswith("done\n")


def test_killed_at_random_while_saving_offsets_none_that_was_durable_is_missing(tmp_path: Path) -> None:
    chance = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}, {ROUNDS} kills")  # noqa: T201
    folder = LocalFolder(tmp_path / "1")
    durable = 0
    for life in range(ROUNDS):
        worker = start("offsets", str(folder.path), "local", "1000000", str(durable + 1))
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(chance.uniform(0, 0.1))
        said = kill(worker).split()
        before = durable
        durable = int(said[-1]) if said else durable + 1
        latest = OffsetStore(folder, AT_ONCE).latest()
        assert latest is not None
        assert latest.recovered_from == ()
        assert latest.sequence_number in {durable, durable + 1}, f"life {life}: {durable} was durable"
        durable = latest.sequence_number
        assert durable > before
        kept = sequences(folder)
        assert kept == sorted(set(kept)), "no file is half there, none is twice there"
    assert len(offset_files(folder)) >= min(100, durable)


def test_killed_at_random_while_replacing_values_readers_see_the_old_or_the_new_one(tmp_path: Path) -> None:
    chance = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}, {ROUNDS} kills")  # noqa: T201
    store = ReplicatorDirectory(str(tmp_path), "n", "shop", retry_seconds=0).states()
    for _ in range(ROUNDS):
        worker = start("state", str(tmp_path), "local")
        assert worker.stdout is not None
        worker.stdout.readline()
        until = time.monotonic() + chance.uniform(0, 0.2)
        while time.monotonic() < until:
            _check_whole(store)  # readers in the middle of writes
        said = kill(worker).split()
        value = _check_whole(store)
        if said:
            last = int(said[-1])
            assert last <= value <= last + 1


def _check_whole(store: replicator_state.StateStore) -> int:
    value = store.read("k")
    status = store.read_status()
    assert value is not None
    assert value.recovered_from is None
    assert len(value.value) == 4000
    assert status is not None
    assert len(status["filling"]) == 20_000
    return int(value.value)


def test_what_a_kill_in_the_middle_of_a_write_leaves_is_tidied_by_a_later_run(local: LocalFolder) -> None:
    local.create("state-a", b"x")
    old, new = local.path / ".tmp-0123456789abcdef", local.path / ".tmp-fedcba9876543210"
    for path in (old, new):
        path.write_bytes(b"half")
    import os

    os.utime(old, (time.time() - 2 * 86400,) * 2)
    replicator_state.Lease.acquire(local, AT_ONCE, "run")
    assert not old.exists()
    assert new.exists(), "a live writer's file is left alone"
