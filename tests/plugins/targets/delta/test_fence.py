"""Only the newest run can write a table (design I6)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from replicator_sdk import failpoint
from replicator_sdk.errors import FencedError, ReplicatorError, RetryableError
from replicator_target_delta.apply.keyed import KeyedApply
from replicator_target_delta.files import storage
from tests.plugins.targets.changes import KEYLESS, TABLE, at, batch, insert, row
from tests.plugins.targets.delta.lake import Lake


@pytest.fixture
def _disarmed() -> Iterator[None]:
    yield
    failpoint.arm("")


def test_a_zombie_that_has_its_files_written_already_cannot_commit_them(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the table before the newer run came, and wakes up between writing files and commit."""
    zombie = lake.consumer(epoch=1)
    zombie.apply_batch(batch(1, [insert(row(1))]))
    written = KeyedApply.run

    def meanwhile(self: KeyedApply) -> object:
        monkeypatch.setattr(KeyedApply, "run", written)
        files = written(self)
        lake.consumer(epoch=2).apply_batch(batch(2, [insert(row(2, "newer"))], epoch=2))
        return files

    monkeypatch.setattr(KeyedApply, "run", meanwhile)
    with pytest.raises(ReplicatorError) as error:
        zombie.apply_batch(batch(2, [insert(row(2))]))
    assert isinstance(error.value, FencedError | RetryableError)
    assert {r["id"]: r["name"] for r in lake.rows(TABLE)} == {1: None, 2: "newer"}
    with pytest.raises(FencedError, match="RPL-8401"):
        zombie.apply_batch(batch(2, [insert(row(2))]))


def test_a_run_that_changes_nothing_in_a_table_commits_nothing_to_it(lake: Lake) -> None:
    lake.consumer(epoch=1).apply_batch(batch(1, [insert(row(1))]))
    version = lake.version(TABLE)
    progress = lake.consumer(epoch=2).progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    assert lake.version(TABLE) == version


def test_a_batch_that_an_older_run_commits_late_is_not_applied_again(lake: Lake) -> None:
    """The newer run has read the table, and written nothing yet. Its first batch fails, then it reads the new position."""
    older, newer = lake.consumer(epoch=1), lake.consumer(epoch=2)
    older.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    assert newer.progress(KEYLESS.table) is not None
    late = [insert({"name": "b", "number": 2}, KEYLESS)]
    older.apply_batch(batch(2, late))
    with pytest.raises(RetryableError, match="RPL-4403"):
        newer.apply_batch(batch(3, [*late, insert({"name": "c", "number": 3}, KEYLESS)], epoch=2))
    progress = newer.progress(KEYLESS.table)
    assert progress is not None
    assert progress.position == at(2)
    newer.apply_batch(batch(3, [insert({"name": "c", "number": 3}, KEYLESS)], epoch=2))
    assert sorted(r["number"] for r in lake.rows(KEYLESS.table)) == [1, 2, 3]
    with pytest.raises(FencedError, match="RPL-8401"):
        older.apply_batch(batch(4, late))


def test_a_table_that_this_run_compacts_before_its_first_batch_takes_the_batch(lake: Lake) -> None:
    for number in range(1, 10):
        lake.consumer(epoch=1).apply_batch(batch(number, [insert(row(number))]))
    newer = lake.consumer(epoch=2)
    assert newer.progress(TABLE) is not None
    lake.maintain(TABLE, "compact", epoch=2)
    newer.apply_batch(batch(10, [insert(row(10))], epoch=2))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(1, 11))


def test_an_older_copy_put_in_the_place_of_a_table_is_not_written_on(lake: Lake, tmp_path: Path) -> None:
    """While the process runs, whose caches know the newer one; reading the progress returns the older position."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    shutil.copytree(lake.path(TABLE), tmp_path / "backup")
    for i in range(3, 6):
        consumer.apply_batch(batch(i, [insert(row(i))]))
    shutil.rmtree(lake.path(TABLE))
    shutil.copytree(tmp_path / "backup", lake.path(TABLE))
    version = lake.version(TABLE)
    with pytest.raises(RetryableError, match="RPL-4113"):
        consumer.apply_batch(batch(6, [insert(row(6))]))
    assert lake.version(TABLE) == version
    progress = lake.consumer().progress(TABLE)
    assert progress is not None
    assert progress.position == at(2)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2]


def test_two_runs_of_one_epoch_do_not_both_apply_a_batch(lake: Lake) -> None:
    """Not to happen, since a lease gives each run its epoch; still nothing is doubled."""
    one, two = lake.consumer(), lake.consumer()
    one.apply_batch(batch(1, [insert(row(1))]))
    two.progress(TABLE)
    start, outcomes = threading.Barrier(2), []

    def work(consumer: object) -> None:
        start.wait()
        try:
            consumer.apply_batch(batch(2, [insert(row(2))]))  # type: ignore[attr-defined]
        except ReplicatorError as err:
            outcomes.append(err)

    threads = [threading.Thread(target=work, args=(c,)) for c in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2]
    assert all(isinstance(err, RetryableError) for err in outcomes)


@pytest.fixture
def elsewhere(lake: Lake) -> Iterator[subprocess.Popen[str]]:
    """Another process within its commit to the table, until it is asked to end."""
    lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    program = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(); input()"
    command = [sys.executable, "-c", program, str(lake.path(TABLE) / "_delta_log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_commit_waits_while_another_process_is_within_its_own(lake: Lake, elsewhere: subprocess.Popen[str]) -> None:
    """A local file system does not refuse a version that is there: the later rename would win, unseen by the other process."""
    version = lake.version(TABLE)
    work = threading.Thread(target=lake.consumer().apply_batch, args=(batch(2, [insert(row(2))]),))
    work.start()
    work.join(1)
    assert lake.version(TABLE) == version
    elsewhere.communicate("\n")
    work.join()
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2]


@pytest.mark.usefixtures("elsewhere")
def test_a_commit_that_another_process_does_not_end_is_an_error(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_WAIT_SECONDS", 0.1)
    with pytest.raises(RetryableError, match="RPL-4406"):
        lake.consumer().apply_batch(batch(2, [insert(row(2))]))


@pytest.mark.usefixtures("_disarmed")
@pytest.mark.parametrize(
    "point", ["delta.files.written", "delta.vectors.written", "delta.commit.before", "delta.commit.after"]
)
def test_a_batch_interrupted_anywhere_is_applied_once_by_its_replay(lake: Lake, point: str) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a")), insert(row(2, "a"))]))
    again = batch(2, [insert(row(3)), insert(row(4))])
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        consumer.apply_batch(again)
    failpoint.arm("")
    for replay in (lake.consumer(), lake.consumer()):
        replay.apply_batch(again)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2, 3, 4]


def test_an_answer_that_got_lost_is_looked_up_in_the_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit came through, its answer did not: the batch counts as applied."""
    from replicator_target_delta.log.transaction_log import Transaction

    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    commit = Transaction.commit

    def lose(self: Transaction, *args: object, **facts: object) -> None:
        commit(self, *args, **facts)  # type: ignore[arg-type]
        raise RetryableError("the connection broke", code="RPL-4401")

    monkeypatch.setattr(Transaction, "commit", lose)
    consumer.apply_batch(batch(2, [insert(row(2))]))
    monkeypatch.undo()
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2]
    consumer.apply_batch(batch(3, [insert(row(3))]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2, 3]
