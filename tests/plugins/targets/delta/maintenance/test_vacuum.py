"""Vacuum deletes the files that no version needs any more, and no other one."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import deltalake
import pytest

from replicator_target_delta.log import transaction_log
from replicator_target_delta.maintenance import vacuum
from tests.plugins.targets.changes import TABLE, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

_HOUR = 3600.0


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """A lake whose tables keep files for an hour."""
    return Lake(lake.path(TABLE).parent.parent, lake.spark(), vacuum_retention_hours=1)


def rewritten(lake: Lake) -> None:
    """A table whose first version's files are all removed, with data files and deletion vectors among them."""
    consumer = lake.consumer()
    for number in range(1, 10):
        consumer.apply_batch(batch(number, [insert(row(number)), insert(row(100 + number))]))
    consumer.apply_batch(batch(10, [delete({"id": number}) for number in range(1, 9)]))
    lake.maintain(TABLE, "compact")


def files(lake: Lake) -> list[Path]:
    return [path for path in lake.path(TABLE).iterdir() if path.is_file() and not path.name.startswith(".")]


def make_old(lake: Lake, *, removals: bool = True) -> None:
    """Every file seems to be written two hours ago; so do the removals in the log."""
    then = time.time() - 2 * _HOUR
    for path in files(lake):
        os.utime(path, (then, then))
    for commit in (lake.path(TABLE) / "_delta_log").glob("*.json") if removals else ():
        text = commit.read_text("utf-8")
        for action in text.split('"deletionTimestamp":')[1:]:
            text = text.replace(action.split(",")[0], str(round(then * 1000)))
        commit.write_text(text, "utf-8")
    transaction_log.TableLog._states.clear()


def test_files_that_were_removed_before_the_retention_are_deleted(lake: Lake) -> None:
    rewritten(lake)
    make_old(lake)
    rows, version = lake.rows(TABLE), lake.version(TABLE)
    report = lake.maintain(TABLE, "vacuum")["vacuum"]
    live = {path.rpartition("/")[2] for path in deltalake.DeltaTable(str(lake.path(TABLE))).file_uris()}
    assert {path.name for path in files(lake)} == live
    assert report.files_after == len(live)
    assert report.files_before is not None
    assert report.files_before > len(live)
    assert lake.rows(TABLE) == rows
    assert lake.version(TABLE) == version, "vacuum commits nothing"


def test_files_that_were_removed_lately_stay_for_readers_of_older_versions(lake: Lake) -> None:
    rewritten(lake)
    make_old(lake, removals=False)
    before = sorted(files(lake))
    lake.maintain(TABLE, "vacuum")
    assert sorted(files(lake)) == before


def test_removals_are_found_in_a_checkpoint_too(lake: Lake) -> None:
    rewritten(lake)
    make_old(lake, removals=False)
    assert lake.consumer()._table(TABLE).log.checkpoint(1)
    before = sorted(files(lake))
    lake.maintain(TABLE, "vacuum")
    assert sorted(files(lake)) == before


def test_a_young_file_stays_although_no_commit_names_it(lake: Lake) -> None:
    """Its commit may be under way; an old one that a crash left is deleted, and what is no file of Delta stays."""
    rewritten(lake)
    young, old, other = (lake.path(TABLE) / name for name in ("part-young.parquet", "part-old.parquet", "notes.txt"))
    for path in (young, old, other):
        path.write_bytes(b"x")
    for path in (old, other):
        os.utime(path, (0, 0))
    lake.maintain(TABLE, "vacuum")
    assert (young.exists(), old.exists(), other.exists()) == (True, False, True)


def test_deletion_vectors_in_use_stay(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(number)) for number in range(20)]))
    consumer.apply_batch(batch(2, [delete({"id": 3})]))
    consumer.apply_batch(batch(3, [delete({"id": 4}), update(row(5, "new"))]))
    make_old(lake)
    assert lake.maintain(TABLE, "vacuum")["vacuum"].has_changed, "the first vector is not in use"
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [n for n in range(20) if n not in (3, 4)]


def test_a_vacuum_that_takes_long_ends_after_some_seconds_and_goes_on_later(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten(lake)
    make_old(lake)
    (task,) = (task for task in lake.target.maintenance_tasks if task.name == "vacuum")
    before = len(files(lake))
    with monkeypatch.context() as patch:
        patch.setattr(vacuum, "_STEP_SECONDS", 0.0)
        report = lake.target.maintain_table(lake.context(), task, TABLE)
    assert not report.is_finished
    assert len(files(lake)) == before
    assert lake.maintain(TABLE, "vacuum")["vacuum"].is_finished
    assert len(files(lake)) < before


def test_a_log_that_is_not_read_here_is_vacuumed_by_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten(lake)
    orphan = lake.path(TABLE) / "part-old.parquet"
    orphan.write_bytes(b"x")
    os.utime(orphan, (0, 0))
    monkeypatch.setattr("replicator_target_delta.log.transaction_log.removed_names", lambda *log: None)
    rows = lake.rows(TABLE)
    lake.maintain(TABLE, "vacuum")
    assert not orphan.exists()
    assert lake.rows(TABLE) == rows


def test_the_vacuum_of_a_table_that_was_put_back_from_a_copy_keeps_its_files(lake: Lake, tmp_path: Path) -> None:
    """The process remembers the newer table, whose files the copy does not all have."""
    rewritten(lake)
    shutil.copytree(lake.path(TABLE), tmp_path / "copy")
    expected = sorted(r["id"] for r in lake.rows(TABLE))
    lake.consumer().apply_batch(batch(11, [delete({"id": 101}), insert(row(700))]))
    shutil.rmtree(lake.path(TABLE))
    shutil.copytree(tmp_path / "copy", lake.path(TABLE))
    for path in files(lake):
        os.utime(path, (0, 0))
    lake.maintain(TABLE, "vacuum")
    assert sorted(r["id"] for r in lake.rows(TABLE)) == expected


def test_a_table_whose_owner_keeps_removed_files_longer_keeps_them(lake: Lake) -> None:
    """As Spark's VACUUM, which refuses to delete them."""
    rewritten(lake)
    lake.spark().sql(
        f"ALTER TABLE delta.`{lake.path(TABLE)}` SET TBLPROPERTIES"
        " ('delta.deletedFileRetentionDuration' = 'interval 30 days')"
    )
    make_old(lake)
    before = sorted(files(lake))
    lake.maintain(TABLE, "vacuum")
    assert sorted(files(lake)) == before
