"""What killed copies and refused renames leave at BigQuery and in the staging bucket is deleted."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.event import DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.snapshot import SnapshotChunk
from replicator_target_bigquery.load.uploads import Upload
from tests.plugins.targets.bigquery.support.changes import KEYED, at, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.delta.test_snapshot import Numbers

CHUNKS = [SnapshotChunk(0, {"start": 0, "stop": 10})]


def killed_copy(project: Project, plan: str, epoch: int = 1) -> set[str]:
    """The files that a copy by this plan left, whose process was killed after it wrote them."""
    before, consumer = set(project.files()), project.consumer(epoch=epoch)
    consumer.begin_snapshot(KEYED, plan, at(1))
    arm("bigquery.snapshot.uploaded=raise")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Upload, "remove", lambda self: None)
        with pytest.raises(RetryableError):
            consumer.load_chunks(KEYED, plan, CHUNKS, Numbers())
    arm("")
    consumer.stop()
    return set(project.files()) - before


def test_what_a_plan_left_in_the_bucket_is_deleted_and_what_other_plans_write_stays(project: Project) -> None:
    left, others = killed_copy(project, "left"), killed_copy(project, "other", 2)
    assert left
    consumer = project.consumer(epoch=3)
    consumer.discard_snapshot(KEYED.table, "left")
    assert set(project.files()) == others
    consumer.discard_snapshot(KEYED.table, "other")
    consumer.discard_snapshot(KEYED.table, "other")
    assert project.files() == []
    consumer.stop()


def test_a_copy_that_goes_on_after_a_kill_leaves_nothing_in_the_bucket(project: Project) -> None:
    assert killed_copy(project, "plan")
    consumer = project.consumer(epoch=2)
    assert consumer.begin_snapshot(KEYED, "plan", at(1)) == frozenset()
    consumer.load_chunks(KEYED, "plan", CHUNKS, Numbers())
    consumer.finish_snapshot(KEYED, "plan", at(1))
    consumer.stop()
    assert project.files() == []
    assert project.count("customers") == 10


def test_a_table_that_was_put_aside_is_dropped_and_another_writers_is_not(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.stop()
    other = project.consumer(name="another")
    with pytest.raises(NeedsUserError):
        other.discard_table(KEYED.table)
    other.stop()
    assert project.count("customers") == 1
    again = project.consumer(epoch=2)
    for _ in range(2):
        again.discard_table(KEYED.table)
        assert again.progress(KEYED.table) is None
    again.apply_ddl(ddl(2, DDLOperation.CREATE_TABLE))
    assert project.count("customers") == 0
    again.stop()
