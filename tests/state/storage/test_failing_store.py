"""While the store fails the run waits; then it goes on, or ends with one line that says what is wrong and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_state import Lease, OffsetStore, StateStore
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry
from tests.state.stores import FailingFolder, offset, sequences

FAULTS = {
    errno.ENOSPC: ("RPL-7103", NeedsUserError),
    errno.EDQUOT: ("RPL-7103", NeedsUserError),
    errno.EACCES: ("RPL-7104", NeedsUserError),
    errno.EROFS: ("RPL-7104", NeedsUserError),
    errno.EIO: ("RPL-7105", RetryableError),
    errno.ESTALE: ("RPL-7105", RetryableError),
}


@pytest.fixture
def failing(tmp_path: Path) -> FailingFolder:
    return FailingFolder(tmp_path / "1")


def _changes(folder: FailingFolder, retry: StoreRetry) -> list[Callable[[], object]]:
    offsets, states = OffsetStore(folder, retry), StateStore(folder, retry)
    return [
        lambda: offsets.save(offset(1)),
        offsets.latest,
        lambda: states.put("k", b"v"),
        lambda: states.get("k"),
        lambda: states.delete("k"),
        lambda: states.put_status({}),
        states.read_status,
        lambda: Lease.acquire(folder, retry, "run"),
    ]


@pytest.mark.parametrize("number", list(FAULTS))
def test_every_fault_of_the_store_becomes_a_typed_error_with_a_next_step(failing: FailingFolder, number: int) -> None:
    code, kind = FAULTS[number]
    failing.error = number
    for change in _changes(failing, StoreRetry(0, str(failing.path))):
        with pytest.raises(ReplicatorError) as caught:
            change()
        assert isinstance(caught.value, kind)
        assert caught.value.code == code
        assert caught.value.hint
        assert str(failing.path) in caught.value.message
        assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_save_waits_until_the_store_is_healed_and_loses_nothing(failing: FailingFolder, number: int) -> None:
    store = OffsetStore(failing, StoreRetry(120, "test"))
    store.save(offset(1))
    failing.error, failing.broken = number, {"create"}
    saved = threading.Event()

    def save() -> None:
        store.save(offset(2, seconds=1))
        saved.set()

    thread = threading.Thread(target=save)
    thread.start()
    assert not saved.wait(0.5), "frozen"
    assert sequences(LocalFolder(failing.path)) == [1]
    failing.error = None
    assert saved.wait(120)
    thread.join()
    assert failing.failures
    assert sequences(LocalFolder(failing.path)) == [1, 2]


def test_a_start_does_not_wait_for_what_only_an_operator_can_fix(failing: FailingFolder) -> None:
    failing.error = errno.EACCES
    begun = time.monotonic()
    with pytest.raises(NeedsUserError, match="RPL-7104"):
        Lease.acquire(failing, StoreRetry(30, "test"), "run")
    assert time.monotonic() - begun < 20


def test_a_save_that_gave_up_left_nothing_and_the_next_one_succeeds(failing: FailingFolder) -> None:
    store = OffsetStore(failing, StoreRetry(0.2, "test"))
    store.save(offset(1))
    failing.error, failing.broken = errno.ENOSPC, {"create"}
    with pytest.raises(NeedsUserError, match="RPL-7103"):
        store.save(offset(2, seconds=1))
    failing.error = None
    assert [n for n in os.listdir(failing.path) if n.startswith(".tmp-")] == []  # noqa: PTH208
    store.save(offset(2, seconds=2))
    assert sequences(LocalFolder(failing.path)) == [1, 2]


def test_an_unreadable_disk_is_not_taken_for_an_unreadable_file(failing: FailingFolder) -> None:
    """Falling back over a file that only cannot be read now would replay, or worse, for nothing."""
    store = OffsetStore(failing, StoreRetry(0, "test"))
    store.save(offset(1))
    failing.error, failing.broken = errno.EIO, {"read"}
    with pytest.raises(RetryableError, match="RPL-7105"):
        store.latest()


def test_old_offsets_that_cannot_be_deleted_never_fail_a_save(
    failing: FailingFolder, caplog: pytest.LogCaptureFixture
) -> None:
    from replicator_state import Retention

    store = OffsetStore(failing, StoreRetry(0, "test"), retention=Retention(count=1))
    failing.error, failing.broken = errno.EACCES, {"remove"}
    for number in range(4):
        store.save(offset(number, seconds=number))
    assert "could not delete" in caplog.text


def test_giving_the_lease_back_never_hides_the_error_that_ended_the_run(
    failing: FailingFolder, caplog: pytest.LogCaptureFixture
) -> None:
    lease = Lease.acquire(failing, StoreRetry(0, "test"), "first")
    failing.error = errno.ENOSPC
    lease.release()
    assert "could not give the lease back" in caplog.text
    failing.error = None
    with pytest.raises(NeedsUserError, match="RPL-7130"):
        Lease.acquire(failing, StoreRetry(0, "test"), "second")
    lease.release()
    assert Lease.acquire(failing, StoreRetry(0, "test"), "second").epoch == 2


def test_a_bug_of_a_program_is_not_waited_for() -> None:
    def wrong() -> None:
        raise TypeError("bug")

    begun = time.monotonic()
    with pytest.raises(TypeError):
        StoreRetry(30, "test").run("test", wrong)
    assert time.monotonic() - begun < 20


def test_an_object_stores_own_error_types_are_waited_for() -> None:
    ClientError = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})  # noqa: N806
    left = [ClientError("slow down"), ClientError("slow down")]

    def flaky() -> str:
        if left:
            raise left.pop()
        return "done"

    assert StoreRetry(10, "test").run("test", flaky) == "done"
    left = [ClientError("a secret is in here")] * 9
    with pytest.raises(RetryableError, match=r"RPL-7105.*ClientError") as caught:
        StoreRetry(0, "test").run("test", flaky)
    assert "secret" not in str(caught.value)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("may not mount here; the same claims run above with a folder that fails")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def _fill(ballast: Path) -> None:
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def test_a_really_full_disk_keeps_what_was_saved_and_heals(small_disk: Path) -> None:
    folder = LocalFolder(small_disk / "n" / "shop" / "1")
    offsets, states = OffsetStore(folder, StoreRetry(0.3, "test")), StateStore(folder, StoreRetry(0.3, "test"))
    offsets.save(offset(1))
    states.put("k", b"before")
    states.put_status({"n": 1})
    ballast = small_disk / "ballast"
    _fill(ballast)
    for change in (
        lambda: offsets.save(offset(2, seconds=1)),
        lambda: states.put("k", b"after"),
        lambda: states.put_status({"n": 2}),
    ):
        with pytest.raises(NeedsUserError, match="RPL-7103"):
            change()
    latest = OffsetStore(folder, StoreRetry(0, "test")).latest()
    assert latest is not None
    assert (latest.sequence_number, latest.recovered_from) == (1, ())
    assert (states.get("k"), states.read_status()) == (b"before", {"n": 1})
    ballast.unlink()
    offsets.save(offset(2, seconds=1))
    states.put("k", b"after")
    assert sequences(folder) == [1, 2]
    assert states.get("k") == b"after"
