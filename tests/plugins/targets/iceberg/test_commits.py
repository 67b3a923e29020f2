"""Each commit holds its progress, and only the newest run makes one: whoever commits in between, and whatever answer is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, RetryableError
from replicator_target_iceberg.config import CatalogType
from replicator_target_iceberg.log.change import STATE_UNKNOWN, Change
from tests.plugins.targets.changes import TABLE, at, batch, insert, row
from tests.plugins.targets.iceberg.others import before_publishing, compacts_and_expires, foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=[CatalogType.HADOOP, CatalogType.JDBC], ids=str)
def lake(request: pytest.FixtureRequest, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    return Warehouse(tmp_path / "lake", iceberg_spark, request.param)


def names(lake: Warehouse) -> dict[int, str | None]:
    return {r["id"]: r["name"] for r in lake.rows(TABLE)}


def test_a_run_that_was_replaced_cannot_publish_what_it_has_made(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both began with the same version. The library's own transaction would begin again from the newer run's, and commit."""
    zombie = lake.consumer(epoch=1)
    zombie.apply_batch(batch(1, [insert(row(1))]))
    newer = lake.consumer(epoch=2)
    before_publishing(monkeypatch, lambda: newer.apply_batch(batch(2, [insert(row(2, "newer"))], epoch=2)))
    with pytest.raises(FencedError, match="RPL-8420"):
        zombie.apply_batch(batch(2, [insert(row(2, "older"))]))
    assert names(lake) == {1: None, 2: "newer"}
    assert len(lake.summaries(TABLE)) == 2
    for consumer in (zombie, newer):
        consumer.stop()


def test_two_runs_that_create_a_table_at_once_make_one(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = lake.consumer(epoch=1), lake.consumer(epoch=2)
    before_publishing(monkeypatch, lambda: newer.apply_batch(batch(1, [insert(row(1, "newer"))], epoch=2)))
    with pytest.raises(ReplicatorError) as error:
        older.apply_batch(batch(1, [insert(row(1, "older"))]))
    assert isinstance(error.value, FencedError | RetryableError)
    assert names(lake) == {1: "newer"}
    for consumer in (older, newer):
        consumer.stop()


def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, publish = lake.consumer(), Change.publish

    def loses_the_answer(self: Change) -> None:
        publish(self)
        raise RetryableError("the answer was lost", code=STATE_UNKNOWN)

    monkeypatch.setattr(Change, "publish", loses_the_answer)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    assert len(lake.rows(TABLE)) == len(lake.summaries(TABLE)) == 2
    consumer.stop()


def test_a_commit_that_never_arrived_is_made_again(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))

    def never_arrives(self: Change) -> None:
        raise RetryableError("no answer", code=STATE_UNKNOWN)

    with monkeypatch.context() as patch:
        patch.setattr(Change, "publish", never_arrives)
        with pytest.raises(RetryableError, match="RPL-4423"):
            consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    assert sorted(names(warehouse)) == [1, 2]
    consumer.stop()


def test_the_position_is_a_property_of_the_snapshot_that_holds_the_rows(warehouse: Warehouse) -> None:
    consumer = warehouse.consumer(epoch=7)
    consumer.apply_batch(batch(1, [insert(row(1))], epoch=7))
    summary = warehouse.summaries(TABLE)[-1]
    assert summary["replicator.position"] == str(at(1))
    assert (summary["replicator.epoch"], summary["replicator.sequence"]) == ("7", "1001")
    assert summary["replicator.batch"] == "1-7-1001-1001"
    consumer.stop()


def test_commits_of_other_programs_neither_hide_the_position_nor_stop_the_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    foreign(warehouse, lambda table, _: table.newAppend().commit())
    foreign(warehouse, lambda table, _: table.newAppend().commit())
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    before_publishing(monkeypatch, lambda: foreign(warehouse, lambda table, _: table.newAppend().commit()))
    with pytest.raises(RetryableError, match="RPL-4422"):
        consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    assert sorted(names(warehouse)) == [1, 2]
    consumer.stop()


def test_a_table_that_is_rolled_back_is_at_the_position_of_that_snapshot(warehouse: Warehouse) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))
    first = warehouse.table(TABLE).snapshots()[0].snapshot_id
    foreign(warehouse, lambda table, _: table.manageSnapshots().rollbackTo(first).commit())
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    consumer.apply_batch(batch(2, [insert(row(2, "again"))]))
    assert names(warehouse) == {1: None, 2: "again"}
    consumer.stop()


def test_another_program_s_expiry_leaves_the_snapshot_with_the_position(warehouse: Warehouse) -> None:
    """One foreign snapshot after it is the case of a nightly compaction. With more than one the table stops, and guesses nothing."""
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [insert(row(2))]))

    foreign(warehouse, compacts_and_expires)
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(2)
    foreign(warehouse, compacts_and_expires)
    with pytest.raises(NeedsUserError, match="RPL-3426"):
        consumer.progress(TABLE)
    consumer.stop()
