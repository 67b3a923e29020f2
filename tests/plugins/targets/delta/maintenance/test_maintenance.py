"""Compaction and vacuum leave rows and progress as they are."""

from __future__ import annotations

import os
import time

import pytest

from replicator_sdk.errors import FencedError
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.maintenance import compaction
from tests.plugins.targets.changes import TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake


def fragmented(lake: Lake) -> None:
    consumer = lake.consumer()
    for i in range(1, 10):
        consumer.apply_batch(batch(i, [insert(row(i)), insert(row(100 + i))] + [delete({"id": 100 + i - 1})] * (i > 1)))


def test_small_files_are_put_together_and_deleted_rows_worked_in(lake: Lake) -> None:
    fragmented(lake)
    before = sorted(r["id"] for r in lake.rows(TABLE))
    lake.maintain(TABLE)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == before
    progress = lake.consumer().progress(TABLE)
    assert progress is not None
    assert progress.position == at(9)
    attempt = lake.consumer()._table(TABLE).begin()
    assert len(attempt.state.files) == 1
    assert all(f.vector is None for f in attempt.state.files)


def test_a_compacted_table_takes_changes_from_a_consumer_that_knew_it_before(lake: Lake) -> None:
    fragmented(lake)
    consumer = lake.consumer()
    consumer.apply_batch(batch(10, [update(row(1, "before"))]))
    lake.maintain(TABLE)
    consumer.apply_batch(batch(11, [update({"id": 1, "note": "after"})]))
    assert {r["id"]: (r["name"], r["note"]) for r in lake.rows(TABLE)}[1] == ("before", "after")


def test_a_table_in_good_order_is_left_alone(lake: Lake) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    lake.maintain(TABLE)
    assert lake.version(TABLE) == 0


def test_a_large_compaction_is_done_in_steps_between_which_changes_are_applied(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragmented(lake)
    largest = max(file.size for file in lake.consumer()._table(TABLE).begin().state.files)
    monkeypatch.setattr(compaction, "_PACK_BYTES", 2 * largest)
    monkeypatch.setattr(compaction, "_PACKS_PER_CORE", 1)
    (task,) = (task for task in lake.target.maintenance_tasks if task.name == "compact")
    before = sorted(r["id"] for r in lake.rows(TABLE))
    report = lake.target.maintain_table(lake.context(), task, TABLE)
    assert not report.is_finished
    assert report.files_before is not None
    assert report.files_after is not None
    assert 1 < report.files_after < report.files_before
    consumer = lake.consumer()
    consumer.apply_batch(batch(10, [insert(row(500))]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [*before, 500]


def commits(lake: Lake) -> list[int]:
    return sorted(int(p.stem) for p in (lake.path(TABLE) / "_delta_log").glob("*.json"))


def many_old_commits(lake: Lake) -> None:
    """40 commits; the first 15, and a checkpoint of the last of these, seem to be made a month ago."""
    consumer = lake.consumer()
    for number in range(1, 16):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    consumer._table(TABLE).log.checkpoint(1)
    month = time.time() - 30 * 86400
    for number in range(15):
        for file in (lake.path(TABLE) / "_delta_log").glob(f"{number:020}.*"):
            os.utime(file, (month + number, month + number))
    for number in range(16, 41):
        consumer.apply_batch(batch(number, [insert(row(number))]))


def test_commits_that_are_older_than_the_reach_of_time_travel_are_deleted(lake: Lake) -> None:
    """Else the log's folder, which every reader lists, grows as long as the table is written."""
    many_old_commits(lake)
    lake.maintain(TABLE)
    assert min(commits(lake)) == 14
    lake.consumer().apply_batch(batch(41, [insert(row(41))]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == list(range(1, 42))


def test_commits_are_kept_as_long_as_the_table_itself_says(lake: Lake) -> None:
    many_old_commits(lake)
    wish = "'delta.logRetentionDuration' = 'interval 60 days'"
    lake.spark().sql(f"ALTER TABLE delta.`{lake.path(TABLE)}` SET TBLPROPERTIES ({wish})")
    lake.maintain(TABLE)
    assert min(commits(lake)) == 0


def test_maintenance_of_a_run_that_a_newer_one_has_replaced_ends(lake: Lake) -> None:
    fragmented(lake)
    lake.consumer(epoch=2).apply_batch(batch(10, [insert(row(10))], epoch=2))
    with pytest.raises(FencedError):
        lake.maintain(TABLE, "compact", epoch=1)


def test_all_commits_are_kept_where_the_table_forbids_the_clean_up(lake: Lake) -> None:
    many_old_commits(lake)
    wish = "'delta.enableExpiredLogCleanup' = 'false'"
    lake.spark().sql(f"ALTER TABLE delta.`{lake.path(TABLE)}` SET TBLPROPERTIES ({wish})")
    lake.maintain(TABLE)
    assert min(commits(lake)) == 0


def test_all_commits_are_kept_where_nothing_is_vacuumed(lake: Lake) -> None:
    never = Lake(lake.path(TABLE).parent.parent, lake.spark(), vacuum_interval_seconds=0)
    many_old_commits(never)
    never.maintain(TABLE)
    assert min(commits(never)) == 0


def test_an_older_run_writes_no_checkpoint_over_the_commits_of_a_newer_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a machine that was paused goes on: the older run's process knows the table as it was before the newer one."""
    many_old_commits(lake)
    known = dict(TableLog._states)
    lake.consumer(epoch=2).apply_batch(batch(41, [insert(row(41))], epoch=2))
    monkeypatch.setattr(TableLog, "_states", known)
    with pytest.raises(FencedError):
        lake.maintain(TABLE, "log", epoch=1)
    assert [path.name for path in (lake.path(TABLE) / "_delta_log").glob("*.checkpoint*parquet")] == [
        f"{14:020}.checkpoint.parquet"
    ]
