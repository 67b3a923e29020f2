"""All of a replicator's state is deleted, on every file system; others' stays; a former run writes nothing there any more."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import FencedError
from replicator_state import ReplicatorDirectory
from tests.state.stores import offset


def _filled(base: str, name: str = "shop") -> ReplicatorDirectory:
    """A replicator of two generations, with a request."""
    former = ReplicatorDirectory(base, "default", name, retry_seconds=0)
    lease = former.acquire("former")
    former.offsets(lease).save(offset(1))
    former.begin_generation(lease)
    lease.release()
    directory = ReplicatorDirectory(base, "default", name, retry_seconds=0)
    directory.requests().submit("table.retry", {"tables": ["orders"]})
    return directory


def _delete(directory: ReplicatorDirectory) -> None:
    lease = directory.acquire("deleting")
    directory.deletion().begin(lease)
    directory.delete_values(lease)
    directory.finish_deletion(lease)
    lease.release()


def test_nothing_is_left_and_others_stay(base: str) -> None:
    directory, other = _filled(base), _filled(base, "other")
    assert directory.generation == 2
    _delete(directory)
    again = ReplicatorDirectory(base, "default", "shop", retry_seconds=0)
    assert (again.generations(), again.deletion().note(), again.requests().waiting()) == ([], None, [])
    assert again.offsets().latest() is None
    assert ReplicatorDirectory(base, "default", "other").generations() == [1, 2]
    assert len(other.requests().waiting()) == 1
    assert again.acquire("later").epoch == 1


def test_a_former_run_is_refused_and_its_end_leaves_nothing(base: str) -> None:
    directory = ReplicatorDirectory(base, "default", "shop", retry_seconds=0)
    zombie = directory.acquire("zombie", ttl_seconds=0.2)
    directory.offsets(zombie).save(offset(1))
    lease = directory.acquire("deleting", wait_seconds=60)
    directory.deletion().begin(lease)
    directory.delete_values(lease)
    with pytest.raises(FencedError, match="RPL-7131"):
        directory.offsets(zombie).save(offset(2))
    directory.finish_deletion(lease)
    with pytest.raises(FencedError, match="RPL-7131"):
        directory.states(zombie).put_status({"phase": "streaming"})
    with pytest.raises(FencedError, match="RPL-7131"):
        zombie.renew()
    zombie.release()
    assert ReplicatorDirectory(base, "default", "shop", retry_seconds=0).generations() == []


def test_a_run_that_was_superseded_deletes_nothing(base: str) -> None:
    directory = _filled(base)
    lease = directory.acquire("deleting")
    directory.deletion().begin(lease)
    lease.release()
    newer = directory.acquire("newer")
    directory.offsets(newer).save(offset(3))
    for step in (directory.delete_values, directory.finish_deletion):
        with pytest.raises(FencedError, match="RPL-7131"):
            step(lease)
    assert directory.offsets().latest() is not None
    assert directory.generations() == [1, 2]


def test_a_damaged_note_is_still_one(base: str) -> None:
    directory = _filled(base)
    directory._home.replace("deleting", b"{")
    note = directory.deletion().note()
    assert note is not None
    assert note.by == "unknown"
    assert not note.only_state
