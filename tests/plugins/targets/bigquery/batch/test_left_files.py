"""What killed runs have left of batches in the staging bucket is deleted by the next batch of their table, or when that is gone."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from replicator_sdk.failpoint import arm
from replicator_target_bigquery.load import uploads
from replicator_target_bigquery.load.uploads import Upload, UploadInTurn
from tests.plugins.targets.bigquery.support.changes import KEYED, batch, ddl, insert, row
from tests.plugins.targets.bigquery.support.project import Project


def killed_batch(project: Project, number: int, epoch: int) -> set[str]:
    """The files of a batch whose process was killed after it wrote them."""
    before, consumer = set(project.files()), project.consumer(epoch=epoch)
    arm("bigquery.staging.uploaded=raise")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UploadInTurn, "remove", lambda self: None)
        with pytest.raises(RetryableError):
            consumer.apply_batch(batch(number, [insert(row(number))]))
    arm("")
    consumer.stop()
    return set(project.files()) - before


def test_files_of_killed_runs_are_deleted_with_the_next_batch_of_the_table(project: Project) -> None:
    """They stayed for good: an object or more for each kill."""
    for epoch in (1, 2, 3):
        assert killed_batch(project, 1, epoch)
    consumer = project.consumer(epoch=4)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert project.files() == []
    consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.stop()
    assert project.files() == []
    assert project.count("customers") == 2


def test_files_that_a_task_writes_late_are_deleted_with_the_next_batch(project: Project) -> None:
    """Of the same run: it was given up, and had not ended."""
    consumer, late = project.consumer(), list[UploadInTurn]()
    true_remove = UploadInTurn.remove

    def remove(self: UploadInTurn) -> None:
        true_remove(self)
        late.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UploadInTurn, "remove", remove)
        consumer.apply_batch(batch(1, [insert(row(1))]))
    put(late[0])
    assert project.files()
    consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.stop()
    assert project.files() == []


def test_a_superseded_run_deletes_nothing_of_its_successor(project: Project) -> None:
    before, after = upload(project, 1), upload(project, 2)
    put(after)
    put(before)
    before.remove()
    assert [name.rpartition("/")[0] for name in project.files()] == [after.folder.path]
    after.remove()
    assert project.files() == []


def test_after_many_kills_a_batch_deletes_some_files_at_a_time_and_its_own_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_LEFT_AT_ONCE", 2)
    for epoch in (1, 2, 3):
        put(upload(project, epoch))
    for left in (1, 0):
        own = upload(project, 4)
        put(own)
        own.remove()
        assert len(project.files()) == left


@pytest.mark.parametrize("gone", ["dropped", "deleted"])
def test_what_killed_runs_have_left_of_a_table_goes_with_the_table(project: Project, gone: str) -> None:
    consumer = project.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    consumer.stop()
    assert killed_batch(project, 1, 2)
    consumer = project.consumer(epoch=3)
    if gone == "dropped":
        consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE))
    else:
        assert consumer.delete_table(KEYED.table) == ""
    consumer.stop()
    assert project.files() == []


def upload(project: Project, epoch: int) -> UploadInTurn:
    consumer = project.consumer(epoch=epoch)
    session = consumer._session
    folder = f"{session.owner}/{project.dataset}/customers/changes"
    return UploadInTurn(session.storage, session.jobs, session.config.staging_bucket, folder, KEYED.table, epoch=epoch)


def put(upload: Upload) -> None:
    """Write a file as a task does."""
    import pyarrow as pa

    upload.write([pa.table({"n": [1]})])
