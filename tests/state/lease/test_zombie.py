"""A run that is paused between its look at the lease and its write changes nothing that a later run reads."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replicator_sdk.errors import NeedsUserError
from replicator_state import Lease, ReplicatorDirectory
from tests.state import worker
from tests.state.processes import start
from tests.state.stores import CountingFolder, offset

KINDS = ["value", "deletion", "identity", "status", "offset"]
SUCCESSORS = ["reads", "reads and writes"]
CASES = [
    (what, before, successor)
    for what in KINDS
    for before in ("after a first one", "as its first")
    for successor in SUCCESSORS
    # An identity is written once; a run reads no status, it writes its own.
    if (what, before) != ("identity", "after a first one") and (what, successor) != ("status", "reads")
]


def _directory(path: Path, kind: str) -> ReplicatorDirectory:
    directory = ReplicatorDirectory(str(path), "n", "shop")
    directory._folder = worker.folder(f"{path}/n/shop/1", kind)
    return directory


def _seen(directory: ReplicatorDirectory, lease: Lease | None) -> dict[str, object]:
    """All that a run, or with no lease a reader, sees."""
    states, latest = directory.states(lease), directory.offsets(lease).latest()
    return {
        "offset": latest and latest.sequence_number,
        "value": states.scoped("runtime").get("k"),
        "identity": states.get("source-identity"),
        "status": states.read_status(),
    }


@contextmanager
def _paused(path: Path, kind: str, what: str, before: str) -> Iterator[list[str]]:
    """While the block runs a zombie is stopped before its late write; afterwards it has written, and said the words."""
    process = start("zombie", str(path), kind, what, before)
    said: list[str] = []
    assert process.stdout is not None
    assert process.stdout.readline() == "paused\n"
    process.send_signal(signal.SIGSTOP)
    yield said
    Path(f"{path}.go").touch()
    process.send_signal(signal.SIGCONT)
    said += process.communicate(timeout=240)[0].split()


@pytest.mark.parametrize("kind", ["local", "plain"])
@pytest.mark.parametrize(("what", "before", "successor"), CASES)
def test_a_late_write_of_a_stopped_run_changes_nothing_its_successors_read(
    tmp_path: Path, kind: str, what: str, before: str, successor: str
) -> None:
    path = tmp_path / "state"
    with _paused(path, kind, what, before) as said:
        directory = _directory(path, kind)
        lease = directory.acquire("successor", ttl_seconds=0.3, wait_seconds=60)
        _seen(directory, lease)
        if successor == "reads and writes":
            worker.change(directory, lease, "value" if what == "deletion" else what, 3)
        seen = _seen(directory, lease)
    assert said == ["RPL-7131"], "the superseded run gets the error"
    assert _seen(directory, lease) == seen
    assert _seen(_directory(path, kind), lease) == seen, "from the files alone"
    assert _seen(_directory(path, kind), None) == seen, "to a reader"
    lease.release()
    for run in range(4, 7):
        later = _directory(path, kind)
        with_lease = later.acquire(f"run {run}")
        assert _seen(later, with_lease) == seen
        for each in ("value", "offset", "status"):
            worker.change(later, with_lease, each, run)
        seen = _seen(later, with_lease)
        assert (seen["value"], seen["offset"], seen["status"]) == (str(run).encode(), run, {"number": run})
        with_lease.release()


@pytest.mark.parametrize("kind", ["local", "plain"])
def test_a_late_renewal_of_a_stopped_run_does_not_touch_its_successors_lease(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state"
    with _paused(path, kind, "lease", "as its first"):
        directory = _directory(path, kind)
        lease = directory.acquire("successor", ttl_seconds=30, wait_seconds=60)
    lease.check()
    with pytest.raises(NeedsUserError, match=r"RPL-7130.*successor"):
        _directory(path, kind).acquire("third")


@pytest.mark.parametrize("what", ["value", "offset"])
def test_a_late_write_on_an_s3_server_changes_nothing_its_successors_read(
    tmp_path: Path, s3_bucket: str, what: str
) -> None:
    path, kind = tmp_path / "state", f"s3://{s3_bucket}"
    with _paused(path, kind, what, "as its first") as said:
        directory = _directory(path, kind)
        lease = directory.acquire("successor", ttl_seconds=0.3, wait_seconds=60)
        worker.change(directory, lease, what, 3)
        seen = _seen(directory, lease)
    assert said == ["RPL-7131"], "the superseded run gets the error"
    assert _seen(_directory(path, kind), lease) == seen, "from the files alone"
    assert _seen(_directory(path, kind), None) == seen, "to a reader"


def test_a_run_superseded_while_it_wrote_the_status_puts_its_successors_back(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with _paused(path, "local", "status", "as its first"):
        directory = _directory(path, "local")
        lease = directory.acquire("successor", ttl_seconds=0.3, wait_seconds=60)
        directory.states(lease).put_status({"number": 3})
    assert json.loads((path / "n/shop/1/state.json").read_text()) == {"number": 3}


@pytest.mark.parametrize("successor", SUCCESSORS)
def test_a_late_write_counts_for_nothing_on_any_file_system(directory: ReplicatorDirectory, successor: str) -> None:
    """The zombie's look at the lease is taken away, as if its write came at once after it."""
    first = directory.acquire("zombie")
    states, offsets = directory.states(first), directory.offsets(first)
    states.put("k", b"1")
    offsets.save(offset(1))
    states.put_status({"number": 1})
    first.release()
    lease = directory.acquire("successor")
    _seen(directory, lease)
    if successor == "reads and writes":
        for what in ("value", "status", "offset"):
            worker.change(directory, lease, what, 3)
    else:
        directory.states(lease).put_status({"number": 3})
    seen = _seen(directory, lease)
    first.check = lambda: None  # type: ignore[method-assign]
    for store in (states._values, states, offsets):
        store._fence = lambda: None
    states.put("k", b"2")
    states.scoped("runtime").put("k", b"2")
    offsets.save(offset(2, seconds=10**8))
    states.put_status({"number": 2})
    assert _seen(directory, lease) == seen
    lease.release()
    assert _seen(directory, directory.acquire("third")) == seen


def test_values_of_the_earlier_layout_are_read_and_taken_over(directory: ReplicatorDirectory) -> None:
    earlier = directory.states()
    earlier.put("k", b"1")
    earlier.put("k", b"2")
    directory.offsets().save(offset(5))
    lease = directory.acquire("new")
    assert directory.states(lease).get("k") == b"2"
    latest = directory.offsets(lease).latest()
    assert latest is not None
    assert (latest.sequence_number, latest.epoch) == (5, lease.epoch)
    earlier.put("k", b"late")
    lease.release()
    assert directory.states(directory.acquire("next")).get("k") == b"2"


def test_the_number_of_files_does_not_grow_with_the_number_of_runs(directory: ReplicatorDirectory) -> None:
    folder = directory._generation_folder()
    counts = []
    for run in range(5):
        lease = directory.acquire(f"run {run}")
        states = directory.states(lease)
        states.get("absent")
        states.put("k", b"v")
        states.put_status({"run": run})
        directory.offsets(lease).latest()
        lease.release()
        counts.append(len([n for n in folder.names() if n.startswith(("state", "no-offset"))]))
    assert counts[0] + 1 >= counts[1] == counts[2] == counts[3] == counts[4], counts


def test_a_running_replicator_lists_nothing(tmp_path: Path) -> None:
    """Only a start lists the folder, which grows with the offsets that are kept."""
    directory = ReplicatorDirectory(str(tmp_path), "n", "shop")
    directory._folder = counting = CountingFolder(tmp_path / "n" / "shop" / "1")
    lease = directory.acquire("run")
    states, offsets = directory.states(lease).scoped("runtime"), directory.offsets(lease)
    for warm in (True, False):
        counting.listings = counting.reads = 0
        for number in range(50):
            states.put("k", str(number).encode())
            states.get("k")
            states.get("none yet")
            offsets.save(offset(number + 100 * (not warm), seconds=number))
            states.put_status({"number": number})
            lease.renew()
    assert counting.listings == 0
    assert counting.reads == 150, "of each value its own file"
