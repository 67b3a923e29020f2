"""Neither upsert nor delete: what the source writes is appended, each row once."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk.errors import DataError, RetryableError
from replicator_sdk.event import DDLOperation
from replicator_sdk.failpoint import arm
from replicator_target_bigquery.consumer import BigQueryConsumer
from tests.plugins.targets.bigquery.merge_flush.support.projects import KEY, streaming
from tests.plugins.targets.bigquery.support.changes import KEYED, KEYLESS, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.bigquery.support.project import Project
from tests.services.bigquery.emulators import Emulators
from tests.services.bigquery.write_gate import Loss


@pytest.fixture
def appending(bigquery_emulators: Emulators) -> Project:
    bigquery_emulators.write_gate.clear()
    return streaming(bigquery_emulators, upsert_enabled=False, delete_enabled=False)


def rows(project: Project) -> list[list[Any]]:
    return project.select("SELECT id, name FROM {d}.customers ORDER BY _sequence_num")


def test_every_row_written_is_appended_and_deletes_are_left_out(appending: Project) -> None:
    consumer = appending.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    changes = batch(1, [insert(row(1, "a")), update(row(1, "b")), delete({"id": 1}), insert(row(1, "c"))])
    consumer.apply_batch(changes)
    assert rows(appending) == [["1", "a"], ["1", "b"], ["1", "c"]]
    assert appending.select(f"SELECT {KEY}.id FROM {{d}}.customers LIMIT 1") == [["1"]]
    consumer.apply_batch(changes)
    consumer.apply_batch(batch(2, [delete({"id": 1})]))
    progress = consumer.progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(2)
    assert len(rows(appending)) == 3
    consumer.stop()


def test_a_table_without_a_key_is_appended_to(appending: Project) -> None:
    consumer = appending.consumer()
    consumer.apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)] * 2))
    assert appending.count("log") == 2
    consumer.stop()


@pytest.mark.parametrize("method", ["AppendRows", "BatchCommitWriteStreams", "FinalizeWriteStream"])
@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.CALL])
def test_lost_answers_double_nothing(appending: Project, method: str, loss: Loss) -> None:
    gate = appending.emulators.write_gate
    consumer = appending.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    gate.plan(method, loss)
    consumer.apply_batch(batch(1, [insert(row(1)), insert(row(2))]))
    assert gate.pending == 0
    assert appending.count("customers") == 2
    consumer.stop()


@pytest.mark.parametrize("place", ["streamed", "announced", "committed"])
def test_a_replay_appends_what_is_missing_and_nothing_else(appending: Project, place: str) -> None:
    def start(epoch: int) -> BigQueryConsumer:
        return appending.consumer(epoch=epoch)

    first = start(1)
    first.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    arm(f"merge_flush.append.{place}=raise")
    with pytest.raises(RetryableError, match="failpoint"):
        first.apply_batch(batch(1, [insert(row(1))]))
    first.stop()
    second = start(2)
    progress = second.progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(0 if place == "streamed" else 1)
    second.apply_batch(batch(1, [insert(row(1))], epoch=2))
    second.apply_batch(batch(2, [insert(row(2))], epoch=2))
    assert [row[0] for row in rows(appending)] == ["1", "2"]
    second.stop()


def test_an_update_that_lacks_columns_is_refused(appending: Project) -> None:
    consumer = appending.consumer()
    consumer.apply_ddl(ddl(0, DDLOperation.CREATE_TABLE))
    with pytest.raises(DataError, match="RPL-6610"):
        consumer.apply_batch(batch(1, [update({"id": 1, "name": "x"})]))
    consumer.stop()
