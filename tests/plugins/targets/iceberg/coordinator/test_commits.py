"""Batches that are committed together: what readers see, what each snapshot says, and what is left when no commit comes of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.batch import TableChanges
from replicator_sdk.datatype import STRING
from replicator_sdk.errors import DataError, RetryableError
from replicator_sdk.event import Alter, AlterKind
from replicator_sdk.schema import Column, TableSchema
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.apply.table_apply import TableApply
from replicator_target_iceberg.coordinator.table_commits import TableCommits
from replicator_target_iceberg.log.change import STATE_UNKNOWN, Change
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, alter, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.coordinator.lakes import ONCE_AN_HOUR, OTHER, files, shown, started
from tests.plugins.targets.iceberg.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(params=["format 2", "format 3", "partitioned", "a row for each change", "a branch"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    settings: dict[str, dict[str, Any]] = {
        "format 2": {},
        "format 3": {"formatVersion": 3},
        "partitioned": {"partitioning": {"*.customers": ["bucket(2, id)", "name"]}},
        "a row for each change": {"mode": "append"},
        "a branch": {"branch": "audit"},
    }
    return Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR, **settings[request.param])


@pytest.fixture
def one(tmp_path: Path, iceberg_spark: SparkSession) -> Warehouse:
    return Warehouse(tmp_path / "lake", iceberg_spark, commitIntervalMs=ONCE_AN_HOUR)


def test_rows_of_one_batch_are_changed_by_the_next_before_either_is_committed(lake: Warehouse) -> None:
    """Rows of a snapshot, too; the second batch finds what the first one has made of them."""
    consumer = started(lake)
    consumer.apply_batch(batch(1, [insert(row(key, "old", "kept")) for key in range(1, 7)]))
    consumer.settle([TABLE])
    consumer.apply_batch(
        batch(2, [insert(row(10, "new")), insert(row(11, "new")), delete({"id": 1}), delete({"id": 2})])
    )
    consumer.apply_batch(batch(3, [update({"id": 10, "name": "newer"}), delete({"id": 11}), delete({"id": 3})]))
    consumer.apply_batch(batch(4, [delete({"id": 10}), update({"id": 4, "name": "moved"}), insert(row(1, "again"))]))
    before = len(lake.summaries(TABLE))
    assert sorted(shown(lake)) == [1, 2, 3, 4, 5, 6]
    assert consumer.settled(TABLE) == at(1)
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(4)
    assert len(lake.summaries(TABLE)) == before + 1
    kept = ("old", "kept")
    assert shown(lake) == {1: ("again", None), 4: ("moved", "kept"), 5: kept, 6: kept}
    consumer.apply_batch(batch(5, [delete({"id": key}) for key in (1, 4, 5, 6)]))
    consumer.settle([TABLE])
    assert shown(lake) == {}
    consumer.stop()


def test_copies_of_rows_without_a_key_come_and_go_before_they_are_committed(one: Warehouse) -> None:
    consumer, table = started(one, KEYLESS), KEYLESS.table

    def log(number: int) -> dict[str, Any]:
        return {"name": "a", "number": number}

    consumer.apply_batch(batch(1, [insert(log(1), KEYLESS)] * 3))
    consumer.apply_batch(batch(2, [delete(log(1), KEYLESS), insert(log(2), KEYLESS)]))
    consumer.apply_batch(batch(3, [delete(log(1), KEYLESS), delete(log(2), KEYLESS)]))
    consumer.settle([table])
    assert one.rows(table) == [log(1)]
    consumer.stop()


def test_files_that_a_later_batch_makes_needless_are_deleted_before_the_commit(one: Warehouse) -> None:
    consumer = started(one)
    consumer.apply_batch(batch(1, [insert(row(key)) for key in range(4)]))
    consumer.apply_batch(batch(2, [delete({"id": 0})]))
    consumer.apply_batch(batch(3, [delete({"id": 1})]))
    assert len(files(one)) == 2
    consumer.apply_batch(batch(4, [delete({"id": 2}), delete({"id": 3})]))
    assert files(one) == set()
    consumer.settle([TABLE])
    assert one.rows(TABLE) == []
    consumer.stop()


def test_a_snapshot_says_which_batches_are_in_it_and_up_to_when_the_table_is_valid(one: Warehouse) -> None:
    consumer = started(one, KEYED, OTHER)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    changes = batch(2, [insert(row(2)), insert(row(3))])
    changes.valid_through = 1_700_000_000_000_000
    consumer.apply_batch(changes)
    consumer.apply_batch(batch(2, [insert(row(1), OTHER)]))
    consumer.settle([TABLE, OTHER.table])
    first, second = (one.summaries(table)[-1] for table in (TABLE, OTHER.table))
    assert first["replicator.batch"] == "1-1-1001-2002"
    assert first["replicator.position"] == str(at(2))
    assert first["replicator.valid-through"] == "1700000000000000"
    assert "replicator.valid-through" not in second
    assert first["replicator.commit-id"] == second["replicator.commit-id"]
    assert first["replicator.commit"] != second["replicator.commit"]
    consumer.apply_batch(batch(3, [insert(row(4))]))
    consumer.settle([TABLE])
    assert one.summaries(TABLE)[-1]["replicator.commit-id"] != first["replicator.commit-id"]
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.valid_through == -1
    consumer.stop()


def test_batches_that_come_again_are_taken_once(one: Warehouse) -> None:
    consumer = started(one)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.settle([TABLE])
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.stop()
    again = started(one, epoch=2)
    again.apply_batch(batch(1, [insert(row(1))]))
    assert again.settled(TABLE) == at(1)
    assert len(one.rows(TABLE)) == 1
    again.stop()


def test_what_is_not_committed_when_the_consumer_stops_leaves_no_files(one: Warehouse) -> None:
    consumer = started(one)
    consumer.apply_batch(batch(1, [insert(row(1)), insert(row(2))]))
    consumer.apply_batch(batch(2, [delete({"id": 1})]))
    assert files(one)
    consumer.stop()
    assert files(one) == set()
    assert one.rows(TABLE) == []


def test_a_batch_with_a_value_that_does_not_fit_leaves_what_was_taken_before(
    one: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are put aside by the runtime, which then gives the rest of the batch."""
    consumer = started(one)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.settle([TABLE])
    consumer.stop()
    consumer = started(one, epoch=2)

    def refuses(self: TableApply, place: Place, changes: TableChanges) -> RowChanges:
        raise DataError("a value does not fit", code="RPL-5422")

    with monkeypatch.context() as patch:
        patch.setattr(TableApply, "write", refuses)
        with pytest.raises(DataError):
            consumer.apply_batch(batch(2, [insert(row(2)), insert(row(3))]))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    assert consumer.settled(TABLE) == at(1)
    consumer.apply_batch(batch(2, [insert(row(2))]))
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(2)
    assert sorted(shown(one)) == [1, 2]
    consumer.stop()


def test_a_table_whose_commit_fails_keeps_no_other_from_its_own(
    one: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why, takes no more, and what it held is gone; another consumer gets the same changes again."""
    consumer = started(one, KEYED, OTHER)
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(1, [insert(row(1), OTHER)]))
    publish = Change.publish

    def fails_for_one(self: Change) -> None:
        if self.storage.root.endswith("customers"):
            raise RetryableError("the catalog is gone", code="RPL-4422")
        publish(self)

    with monkeypatch.context() as patch:
        patch.setattr(Change, "publish", fails_for_one)
        consumer.settle([TABLE, OTHER.table])
    assert consumer.settled(OTHER.table) == at(1)
    with pytest.raises(RetryableError, match="RPL-4422"):
        consumer.settled(TABLE)
    with pytest.raises(RetryableError, match="RPL-4422"):
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert files(one) == set()
    consumer.stop()
    again = started(one, KEYED, OTHER, epoch=2)
    again.apply_batch(batch(2, [insert(row(1)), insert(row(2))]))
    again.settle([TABLE])
    assert sorted(shown(one)) == [1, 2]
    again.stop()


def test_a_commit_whose_answer_is_lost_is_found_and_what_comes_next_follows_it(
    one: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, publish = started(one), Change.publish
    consumer.apply_batch(batch(1, [insert(row(1))]))

    def loses_the_answer(self: Change) -> None:
        publish(self)
        raise RetryableError("the answer was lost", code=STATE_UNKNOWN)

    with monkeypatch.context() as patch:
        patch.setattr(Change, "publish", loses_the_answer)
        consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(1)
    consumer.apply_batch(batch(2, [delete({"id": 1}), insert(row(2))]))
    consumer.settle([TABLE])
    assert sorted(shown(one)) == [2]
    consumer.stop()


@pytest.mark.parametrize("ends", ["committed as it ends", "refused"])
def test_a_batch_that_leaves_nothing_to_commit_keeps_nothing_of_the_table_as_it_was(
    one: Warehouse, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The runtime changes the table's structure then, and the next batch has its new columns."""
    consumer, finish = started(one), TableCommits._finish

    def refuses(self: TableApply, place: Place, changes: TableChanges) -> RowChanges:
        raise DataError("a value does not fit", code="RPL-5422")

    def is_followed_by_a_commit(self: TableCommits, place: Place, made: RowChanges, changes: TableChanges) -> None:
        finish(self, place, made, changes)
        self.commit("of the clock's thread")

    with monkeypatch.context() as patch:
        if ends == "refused":
            patch.setattr(TableApply, "write", refuses)
            with pytest.raises(DataError):
                consumer.apply_batch(batch(1, [insert(row(1))]))
        else:
            patch.setattr(TableCommits, "_finish", is_followed_by_a_commit)
            consumer.apply_batch(batch(1, [insert(row(1))]))
            assert consumer.settled(TABLE) == at(1)
    more = Column("more", STRING)
    wider = TableSchema(TABLE, (*KEYED.columns, more), KEYED.primary_key)
    consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, more)))
    consumer.apply_batch(batch(3, [insert({**row(2), "more": "new"}, wider)]))
    consumer.settle([TABLE])
    assert consumer.settled(TABLE) == at(3)
    assert [r["more"] for r in one.rows(TABLE) if r["id"] == 2] == ["new"]
    consumer.stop()
