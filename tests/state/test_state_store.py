"""State values are atomic, checked and have a version before them; the status is plain JSON."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replicator_sdk.errors import BugError, FencedError, HistoryLostError, NeedsUserError
from replicator_state import Lease, ReplicatorDirectory, StateStore
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry
from replicator_state.value_files import ValueFiles

AT_ONCE = StoreRetry(0, "test")


@contextmanager
def held(lease: Lease) -> Iterator[Lease]:
    """The lease, until the block ends."""
    try:
        yield lease
    finally:
        lease.release()


def test_a_value_is_there_until_it_is_deleted(directory: ReplicatorDirectory, folder: Folder) -> None:
    store = directory.states()
    assert store.get("schema") is None
    for value in (b"", b"one", b"\0" * 100_000):
        store.put("schema", value)
        assert directory.states().get("schema") == value
    store.delete("schema")
    store.delete("schema")
    assert directory.states().get("schema") is None
    assert folder.names("state-") == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=12), st.binary(max_size=20), min_size=2, max_size=6))
def test_no_two_keys_meet_whatever_their_letters(local: LocalFolder, values: dict[str, bytes]) -> None:
    encodable = {k: v for k, v in values.items() if k.isprintable() or k.isascii()}
    store = StateStore(local, AT_ONCE)
    for key, value in encodable.items():
        store.put(key, value)
    assert {key: store.get(key) for key in encodable} == encodable
    for name in local.names():
        assert name.startswith("state-")
        (local.path / name).unlink()


def test_a_key_that_looks_like_a_path_or_another_file_stays_in_the_folder(local: LocalFolder) -> None:
    store = StateStore(local, AT_ONCE)
    store.put("a", b"1")
    for key in ("../../x", "/etc/passwd", "a.previous", "..", ".", "a/b", "a%2Fb", "json", "naïve\n"):
        store.put(key, key.encode())
    assert store.get("a") == b"1"
    assert store.get("a/b") == b"a/b"
    assert store.get("a%2Fb") == b"a%2Fb"
    assert local.folders() == []
    assert sorted(p.name for p in local.path.parent.iterdir()) == ["1"]


def test_scopes_never_meet(directory: ReplicatorDirectory) -> None:
    store = directory.states()
    source, target = store.scoped("source"), store.scoped("target")
    source.put("k", b"s")
    target.put("k", b"t")
    store.put("k", b"r")
    assert (source.get("k"), target.get("k"), store.get("k")) == (b"s", b"t", b"r")


def test_keys_that_cannot_be_a_file_name_are_refused(local: LocalFolder) -> None:
    for key in ("", "x" * 300, "é" * 80):
        with pytest.raises(BugError, match="RPL-7121"):
            StateStore(local, AT_ONCE).put(key, b"")


def test_a_damaged_value_falls_back_to_the_one_before_and_says_so(
    local: LocalFolder, caplog: pytest.LogCaptureFixture
) -> None:
    store = StateStore(local, AT_ONCE)
    store.put("k", b"one")
    store.put("k", b"two")
    file = local.path / "state-k"
    whole = file.read_bytes()
    damaged = [whole[:n] for n in range(len(whole))]
    for place in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        damaged.append(bytes(flipped))
    for content in damaged:
        file.write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = store.read("k")
        assert found is not None
        assert found.value == b"one"
        assert found.recovered_from is not None
        assert "state-k" in caplog.text
    file.unlink()
    assert store.get("k") == b"one", "a value that vanished is not a value that never was"
    file.write_bytes(whole)
    assert store.read("k").recovered_from is None  # type: ignore[union-attr]


def test_a_damaged_value_does_not_push_out_the_last_good_one(local: LocalFolder) -> None:
    store = StateStore(local, AT_ONCE)
    store.put("k", b"one")
    store.put("k", b"two")
    (local.path / "state-k").write_bytes(b"junk")
    store.put("k", b"three")
    (local.path / "state-k").write_bytes(b"junk")
    assert store.get("k") == b"one"


def test_a_value_older_than_the_offset_is_refused_whether_damaged_or_of_another_backup(
    directory: ReplicatorDirectory, folder: Folder
) -> None:
    with held(directory.acquire("one")) as lease:
        store = directory.states(lease).scoped("runtime")
        store.put("k", b"one", numbered=True)
        backup = {name: folder.read(name) for name in folder.names("state-")}
        store.put("k", b"two", numbered=True)
        store.put("other", b"without a number")
        numbers = store.numbers()
    files = {name: folder.read(name) for name in folder.names("state-runtime")}
    [newest] = [name for name in files if "previous" not in name and b"two" in files[name]]
    for damage in ({newest: b"junk"}, backup):
        for name, content in {**files, **damage}.items():
            folder.replace(name, content)
        for _ in range(2):  # also once it is taken over
            with (
                held(directory.acquire("later")) as lease,
                pytest.raises(HistoryLostError, match=r"RPL-7125.*replicator reset"),
            ):
                directory.states(lease).scoped("runtime").check_numbers(numbers)
    assert list(numbers.values()) == sorted(numbers.values())


@pytest.mark.parametrize("together", [False, True])
def test_a_value_that_is_missing_altogether_is_refused_as_an_older_one_is(
    directory: ReplicatorDirectory, folder: Folder, together: bool
) -> None:
    with held(directory.acquire("one")) as lease:
        store = directory.states(lease).scoped("runtime")
        store.put("whole", b"one", numbered=True)
        numbers = store.numbers()
    for name in folder.names("state-"):
        folder.remove(name)
    groups = [("whole", "changes")] if together else []
    for _ in range(3):  # also once it was adopted that there is none
        with held(directory.acquire("later")) as lease:
            store = directory.states(lease).scoped("runtime")
            with pytest.raises(HistoryLostError, match=r"RPL-7125.*state-runtime\S*whole.* is missing"):
                store.check_numbers(numbers, together=groups)
    with held(directory.acquire("never")) as lease:
        directory.states(lease).scoped("runtime").check_numbers({}, together=groups)


def test_of_values_that_belong_together_the_newest_one_counts(directory: ReplicatorDirectory, folder: Folder) -> None:
    with held(directory.acquire("one")) as lease:
        store = directory.states(lease)
        for key, value in (("whole", b"1"), ("whole", b"2"), ("changes", b"3")):
            store.put(key, value, numbered=True)
        numbers = store.numbers()
    for name in folder.names("state-whole"):
        if "previous" not in name:
            folder.replace(name, b"junk")
    with held(directory.acquire("two")) as lease:
        directory.states(lease).check_numbers(numbers, together=[("whole", "changes")])
        with pytest.raises(HistoryLostError, match="RPL-7125"):
            directory.states(lease).check_numbers(numbers)


def test_a_start_takes_over_numbered_values_several_at_once(
    directory: ReplicatorDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(directory.acquire("a")) as lease:
        store = directory.states(lease)
        for number in range(4):
            store.put(f"part-{number}", b"%d" % number, numbered=True)
        numbers = store.numbers()
    together, write = threading.Barrier(4, timeout=20), ValueFiles.write

    def wait(files: ValueFiles, file: str, content: bytes, what: str) -> None:
        if not file.endswith(".previous"):
            together.wait()
        write(files, file, content, what)

    with held(directory.acquire("b")) as lease, monkeypatch.context() as patched:
        store = directory.states(lease)
        patched.setattr(ValueFiles, "write", wait)
        store.check_numbers(numbers)
        assert [store.get(f"part-{number}") for number in range(4)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("back", [0, 3600])
def test_numbers_rise_from_run_to_run_also_when_the_clock_is_set_back(
    directory: ReplicatorDirectory, monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    numbers: dict[str, int] = {}
    for run in range(3):
        clock = time.time_ns() - back * run * 10**9
        with held(directory.acquire(str(run))) as lease, monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda clock=clock: clock)
            store = directory.states(lease)
            store.check_numbers(numbers)
            for key in ("a", "b", "a"):
                before = max(store.numbers().values(), default=0)
                store.put(key, b"x", numbered=True)
                assert store.numbers()[f"state-{key}"] > before
            numbers = store.numbers()


def test_two_damaged_versions_are_an_error_and_never_absent(directory: ReplicatorDirectory, folder: Folder) -> None:
    store = directory.states()
    store.put("k", b"one")
    store.put("k", b"two")
    for name in folder.names("state-"):
        folder.replace(name, b"")
    with pytest.raises(NeedsUserError, match=r"RPL-7120.*Next:"):
        store.get("k")


def test_a_damaged_value_that_is_set_aside_may_be_written_again_and_its_file_is_kept(
    directory: ReplicatorDirectory, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    with_lease = directory.acquire("one")
    directory.states(with_lease).put("k", b"one")
    directory.states(with_lease).put("k", b"two")
    with_lease.release()
    for name in folder.names("state-"):
        folder.replace(name, b"junk")
    store = directory.states(directory.acquire("two"))
    with pytest.raises(NeedsUserError, match="RPL-7120"):
        store.get("k")
    with pytest.raises(NeedsUserError, match="RPL-7120"):
        store.put("k", b"three")
    directory.states().set_aside("k")
    with pytest.raises(NeedsUserError, match="RPL-7120"):
        directory.states().get("k")  # a reader changes nothing
    store.set_aside("k")
    assert [record.__dict__["code"] for record in caplog.records] == ["RPL-7124"]
    assert folder.read("damaged-state-k") == b"junk"
    assert store.get("k") is None
    store.put("k", b"three")
    assert directory.states().get("k") == b"three"
    store.set_aside("k")
    store.set_aside("absent")
    assert (store.get("k"), directory.states().get("k"), store.get("absent")) == (None, None, None)


def test_the_status_is_plain_json_that_any_program_reads(local: LocalFolder) -> None:
    store = StateStore(local, AT_ONCE)
    assert store.read_status() is None
    status = {"tables": [{"table": "Größe", "rows": 3}], "sourceState": "OK"}
    store.put_status(status)
    assert json.loads((local.path / "state.json").read_text(encoding="utf-8")) == status
    assert store.read_status() == status


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_status_is_a_clear_error(directory: ReplicatorDirectory, folder: Folder, content: bytes) -> None:
    folder.replace("state.json", content)
    with pytest.raises(NeedsUserError, match="RPL-7122"):
        directory.states().read_status()


def test_a_superseded_run_changes_no_state(directory: ReplicatorDirectory) -> None:
    old = directory.acquire("old")
    zombie = directory.states(old)
    zombie.put("k", b"old")
    zombie.put_status({"run": "old"})
    old.release()
    directory.states(directory.acquire("new")).put_status({"run": "new"})
    changes: list[Callable[[], None]] = [
        lambda: zombie.put("k", b"zombie"),
        lambda: zombie.scoped("source").put("k", b"zombie"),
        lambda: zombie.put_status({"run": "zombie"}),
        lambda: zombie.delete("k"),
    ]
    for change in changes:
        with pytest.raises(FencedError):
            change()
    assert directory.states().get("k") == b"old"
    assert directory.states().read_status() == {"run": "new"}
