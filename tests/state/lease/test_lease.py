"""One run holds the lease; the dead and the silent lose it, the living keep it, whatever the clocks say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_state import Clock, Lease, ReplicatorDirectory
from replicator_state.lease.epoch_claim import lease_name
from replicator_state.lease.epochs import EpochRegister
from replicator_state.lease.lease_holder import LeaseHolder
from replicator_state.lease.lease_record import LeaseRecord
from replicator_state.storage.folder import Folder
from replicator_state.storage.local_folder import LocalFolder
from replicator_state.storage.store_retry import StoreRetry
from tests.state.processes import start
from tests.state.stores import START, offset

AT_ONCE = StoreRetry(0, "test")
TTL = 30.0
ELSEWHERE = LeaseHolder("other-run", "far.example", "another-boot", "pid:[1]", 4711, 99)


class Time:
    """Clocks that move only when a caller sleeps, and what happens meanwhile."""

    def __init__(self) -> None:
        self.wall: datetime = START
        self.monotonic = 1000.0
        self.meanwhile: Callable[[], None] = lambda: None
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds
        self.slept += seconds
        self.meanwhile()

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.monotonic, self.sleep)


@pytest.fixture
def clocks() -> Time:
    return Time()


def _take(folder: Folder, clocks: Time, run: str = "mine", *, wait: float = 0.0) -> Lease:
    return Lease.acquire(folder, AT_ONCE, run, ttl_seconds=TTL, wait_seconds=wait, clock=clocks.clock)


def _held_elsewhere(folder: Folder, at: datetime = START, holder: LeaseHolder = ELSEWHERE) -> LeaseRecord:
    record = LeaseRecord(holder, TTL, at, at, token="t")
    assert EpochRegister(folder).claim(1, record.to_bytes())
    return record


def test_epochs_rise_by_one_with_every_run_and_are_never_used_again(folder: Folder, clocks: Time) -> None:
    epochs = []
    for run in range(30):
        lease = _take(folder, clocks, f"run{run}")
        epochs.append(lease.epoch)
        lease.release()
    assert epochs == list(range(1, 31))
    assert len(folder.names("epoch.")) <= 22, "old claims are tidied"
    assert len(folder.names("lease.")) <= 22


def test_a_second_run_learns_who_holds_the_lease_and_what_to_do(folder: Folder, clocks: Time) -> None:
    _held_elsewhere(folder)
    with pytest.raises(NeedsUserError) as caught:
        _take(folder, clocks)
    text = str(caught.value)
    for part in (
        "RPL-7130",
        "run other-run",
        "4711",
        "far.example",
        "2026-01-01T12:00:00",
        "2026-01-01T12:00:30",
        "Next:",
    ):
        assert part in text
    assert clocks.slept == 0, "at once"


def test_a_lease_that_was_given_back_is_free_at_once(folder: Folder, clocks: Time) -> None:
    first = _take(folder, clocks, "first")
    first.release()
    first.release()
    assert _take(folder, clocks).epoch == 2
    assert clocks.slept < 1


def test_a_silent_holder_loses_the_lease_after_its_time(folder: Folder, clocks: Time) -> None:
    _held_elsewhere(folder)
    clocks.wall += timedelta(seconds=TTL + 1)
    assert _take(folder, clocks).epoch == 2
    assert clocks.slept == pytest.approx(TTL / 2, abs=2), "watched for half its time more, by the monotonic clock"


def test_waiting_takes_over_when_the_holder_falls_silent_meanwhile(folder: Folder, clocks: Time) -> None:
    _held_elsewhere(folder)
    assert _take(folder, clocks, wait=120).epoch == 2
    assert TTL <= clocks.slept <= 2 * TTL


def test_waiting_ends_with_the_refusal_when_the_holder_lives_on(folder: Folder, clocks: Time) -> None:
    record = _held_elsewhere(folder)

    def renew() -> None:
        nonlocal record
        if clocks.wall - record.renewed_at > timedelta(seconds=TTL / 3):
            record = record.renewed(clocks.wall)
            folder.replace(lease_name(1), record.to_bytes())

    clocks.meanwhile = renew
    with pytest.raises(NeedsUserError, match="RPL-7130"):
        _take(folder, clocks, wait=200)
    assert clocks.slept == pytest.approx(200, abs=5)


@pytest.mark.parametrize(
    "step", [timedelta(days=365), timedelta(hours=-1), timedelta(days=-365), timedelta(seconds=31)]
)
def test_no_step_of_our_clock_takes_the_lease_from_a_living_holder(
    folder: Folder, clocks: Time, step: timedelta
) -> None:
    record = _held_elsewhere(folder)
    theirs = START

    def renew() -> None:
        nonlocal record, theirs
        theirs = START + timedelta(seconds=clocks.slept)
        if theirs - record.renewed_at > timedelta(seconds=TTL / 3):
            record = record.renewed(theirs)
            folder.replace(lease_name(1), record.to_bytes())

    clocks.wall += step
    clocks.meanwhile = renew
    with pytest.raises(NeedsUserError, match="RPL-7130"):
        _take(folder, clocks)
    assert clocks.slept <= TTL


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(days=-365), timedelta(days=365)])
def test_no_step_of_our_clock_keeps_a_dead_holders_lease_for_ever(
    folder: Folder, clocks: Time, step: timedelta
) -> None:
    _held_elsewhere(folder)
    clocks.wall += step
    assert _take(folder, clocks).epoch == 2
    assert clocks.slept <= TTL + 2


def test_a_dead_process_of_this_host_loses_the_lease_at_once(folder: Folder, clocks: Time) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    started = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
    holder = replace(LeaseHolder.current("other"), pid=child.pid, started=started)
    _held_elsewhere(folder, holder=holder)
    with pytest.raises(NeedsUserError):
        _take(folder, clocks)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert holder.is_gone(), "dead, though its parent has not collected it yet"
    child.communicate()
    assert _take(folder, clocks).epoch == 2
    assert clocks.slept < 1


def test_a_process_number_used_again_by_another_process_does_not_hold_the_lease(folder: Folder, clocks: Time) -> None:
    mine = LeaseHolder.current("other")
    assert not mine.is_gone()
    _held_elsewhere(folder, holder=replace(mine, started=mine.started - 1))
    assert _take(folder, clocks).epoch == 2
    assert clocks.slept < 1


def test_a_process_that_cannot_be_seen_from_here_is_not_taken_for_dead() -> None:
    dead = replace(LeaseHolder.current("other"), pid=2**22 - 3)
    assert dead.is_gone()
    for elsewhere in (replace(dead, boot="x"), replace(dead, process_space="pid:[2]"), replace(dead, boot="")):
        assert not elsewhere.is_gone()


@pytest.mark.parametrize("content", [b"", b"{", b'{"holder": 3}'])
def test_a_damaged_lease_file_counts_as_held_until_it_was_silent(folder: Folder, clocks: Time, content: bytes) -> None:
    _held_elsewhere(folder)
    folder.replace(lease_name(1), content)
    assert _take(folder, clocks).epoch == 2
    assert clocks.slept == pytest.approx(TTL, abs=2)


def test_a_superseded_run_is_refused_at_the_next_check_renewal_or_release(folder: Folder, clocks: Time) -> None:
    old = _take(folder, clocks, "old")
    old.check()
    clocks.wall += timedelta(seconds=100)
    record = LeaseRecord(ELSEWHERE, TTL, START, START)
    assert EpochRegister(folder).claim(2, record.to_bytes())
    for action in (old.check, old.renew):
        with pytest.raises(FencedError, match="RPL-7131") as caught:
            action()
        assert caught.value.exit_code == 8
    before = {name: folder.read(name) for name in folder.names() if name.endswith("2")}
    old.release()
    assert {name: folder.read(name) for name in before} == before, "giving back changes nothing of the successor"
    clocks.wall = START
    with pytest.raises(NeedsUserError, match="other-run"):
        _take(folder, clocks, "third")


def test_a_zombie_asleep_over_many_successors_still_finds_out(folder: Folder, clocks: Time) -> None:
    zombie = _take(folder, clocks, "zombie")
    zombie.release()
    for run in range(40):
        _take(folder, clocks, f"run{run}").release()
    assert EpochRegister(folder).read(1) is None, "its claim is long tidied away"
    with pytest.raises(FencedError):
        zombie.check()


def test_renewal_in_the_background_keeps_others_out_and_reports_the_loss(folder: Folder) -> None:
    lost: list[FencedError] = []
    fenced = threading.Event()

    def on_lost(error: FencedError) -> None:
        lost.append(error)
        fenced.set()

    lease = Lease.acquire(folder, AT_ONCE, "mine", ttl_seconds=0.3)
    with lease.renewing(on_lost):
        until, beat = time.monotonic() + 60, 0
        while beat < 9:  # three times its life
            assert time.monotonic() < until
            time.sleep(0.05)
            if folder.exists(lease_name(1)):  # since the first renewal
                record = LeaseRecord.from_bytes(folder.read(lease_name(1)))
                assert record is not None
                beat = record.beat
        assert not lost
        assert EpochRegister(folder).claim(2, b"successor")
        assert fenced.wait(60)
    assert len(lost) == 1


def test_a_stopped_and_resumed_process_cannot_save_or_renew(tmp_path: Path) -> None:
    """A real SIGSTOP: the successor takes over after the time to live, the resumed run exits as fenced."""
    path = tmp_path / "base"
    script = (
        "import sys; from replicator_state import *; from tests.state.stores import offset\n"
        f"d = ReplicatorDirectory({str(path)!r}, 'n', 'shop', retry_seconds=0)\n"
        "l = d.acquire('zombie', ttl_seconds=0.5); s = d.offsets(l); s.save(offset(1)); print('saved', flush=True)\n"
        "sys.stdin.readline()\n"
        "for act in (lambda: s.save(offset(2, seconds=9)), l.renew, lambda: d.states(l).put('k', b'z')):\n"
        "    try: act(); print('DONE')\n"
        "    except Exception as e: print(e.code)\n"
    )
    root = Path(__file__).parents[3]
    zombie = subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert zombie.stdout is not None
    assert zombie.stdin is not None
    assert zombie.stdout.readline() == "saved\n"
    os.kill(zombie.pid, signal.SIGSTOP)

    directory = ReplicatorDirectory(str(path), "n", "shop", retry_seconds=0)
    successor = directory.acquire("successor", ttl_seconds=0.5, wait_seconds=60)
    directory.offsets(successor).save(offset(10, seconds=1))
    os.kill(zombie.pid, signal.SIGCONT)
    answers, _ = zombie.communicate("go\n", timeout=120)
    assert answers.split() == ["RPL-7131"] * 3
    latest = directory.offsets().latest()
    assert latest is not None
    assert latest.sequence_number == 10
    assert directory.states().get("k") is None


def test_after_a_real_kill_the_next_run_starts_at_once(local: LocalFolder) -> None:
    worker = start("lease", str(local.path), "local")
    assert worker.stdout is not None
    assert worker.stdout.readline() == "1\n"
    worker.kill()
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    begun = time.monotonic()
    assert Lease.acquire(local, AT_ONCE, "next").epoch == 2
    assert time.monotonic() - begun < 20  # the dead one's lease lasts for 30
