"""A table goes back to an earlier version in one commit of this run: rows, columns, progress, and what waits for its row."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.errors import FencedError, NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.target import EarlierVersion
from replicator_target_delta.apply.keyed import KeyedApply
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake

WIDER = TableSchema(TABLE, (*KEYED.columns, Column("city", STRING)), ("id",))


def some_history(lake: Lake) -> list[dict[str, object]]:
    """Four batches, a column and an emptied table; returns the rows after the second batch."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(1, 9)]))
    consumer.apply_batch(batch(2, [delete(row(1, "a")), update(row(2, "b"))]))
    then = lake.rows(TABLE)
    consumer.apply_batch(batch(3, [delete(row(3, "a")), insert(row(1, "again"))]))
    consumer.apply_ddl(alter(4, WIDER, Alter(AlterKind.ADD_COLUMN, WIDER["city"], default="Rome")))
    consumer.apply_batch(batch(5, [insert({**row(9), "city": "Oslo"}, WIDER)]))
    consumer.apply_ddl(ddl(6, DDLOperation.TRUNCATE_TABLE, WIDER))
    consumer.apply_batch(batch(7, [insert({**row(10), "city": "Bonn"}, WIDER)]))
    return then


def found(lake: Lake, position: int, epoch: int = 2) -> EarlierVersion | None:
    return lake.consumer(epoch=epoch).find_version(TABLE, at(position))


def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda one: str(one["id"]))


def test_rows_columns_and_progress_are_those_of_the_version(lake: Lake) -> None:
    then = some_history(lake)
    version = found(lake, 2)
    assert version is not None
    assert version.progress is not None
    assert (version.progress.position, version.following.position) == (at(2), at(3))
    assert (version.rows_now, version.rows_then) == (1, 7)
    before = lake.version(TABLE)
    consumer = lake.consumer(epoch=2)
    progress = consumer.rewind_table(TABLE, at(2))
    assert progress is not None
    assert (progress.position, progress.epoch) == (at(2), 2)
    assert in_order(lake.rows(TABLE)) == in_order(then)
    assert lake.version(TABLE) == before + 1
    assert lake.consumer(epoch=2).progress(TABLE) == progress


def test_the_log_applied_again_makes_the_table_what_it_was(lake: Lake) -> None:
    some_history(lake)
    end = lake.rows(TABLE)
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    consumer = lake.consumer(epoch=3)
    consumer.apply_batch(batch(3, [delete(row(3, "a")), insert(row(1, "again"))], epoch=3))
    consumer.apply_ddl(alter(4, WIDER, Alter(AlterKind.ADD_COLUMN, WIDER["city"], default="Rome")))
    assert {one["city"] for one in lake.rows(TABLE)} == {"Rome"}
    consumer.apply_batch(batch(5, [insert({**row(9), "city": "Oslo"}, WIDER)], epoch=3))
    consumer.apply_ddl(ddl(6, DDLOperation.TRUNCATE_TABLE, WIDER))
    consumer.apply_batch(batch(7, [insert({**row(10), "city": "Bonn"}, WIDER)], epoch=3))
    assert [{**one, "_batch": 0} for one in lake.rows(TABLE)] == [{**one, "_batch": 0} for one in end]


def test_a_second_time_nothing_is_committed(lake: Lake) -> None:
    some_history(lake)
    first = lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    version = lake.version(TABLE)
    assert lake.consumer(epoch=3).rewind_table(TABLE, at(2)) == first
    assert found(lake, 2, epoch=3) is None
    assert lake.version(TABLE) == version


def test_a_later_rewind_goes_back_further_than_an_earlier_one(lake: Lake) -> None:
    some_history(lake)
    lake.consumer(epoch=2).rewind_table(TABLE, at(5))
    assert {one["id"] for one in lake.rows(TABLE)} == {1, 2, 4, 5, 6, 7, 8, 9}
    lake.consumer(epoch=3).rewind_table(TABLE, at(1))
    assert {one["id"]: one["name"] for one in lake.rows(TABLE)} == dict.fromkeys(range(1, 9), "a")


def test_after_compaction_too(lake: Lake) -> None:
    then = some_history(lake)
    lake.maintain(TABLE, "compact", "checkpoint")
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert in_order(lake.rows(TABLE)) == in_order(then)
    lake.maintain(TABLE, "compact", epoch=2)
    assert in_order(lake.rows(TABLE)) == in_order(then)


def test_removals_that_wait_for_their_rows_are_those_of_the_version(lake: Lake) -> None:
    """One was stored before the position, and its row came after it."""
    consumer = lake.consumer()
    one = {"name": "x", "number": 1}
    consumer.apply_batch(batch(1, [insert({"name": "y", "number": 2}, KEYLESS)]))
    unordered = batch(2, [delete(one, KEYLESS)])
    unordered.unordered = True
    consumer.apply_batch(unordered)
    late = batch(3, [insert(one, KEYLESS)])
    late.unordered = True
    consumer.apply_batch(late)
    assert len(lake.rows(KEYLESS.table)) == 1
    lake.consumer(epoch=2).rewind_table(KEYLESS.table, at(2))
    again = batch(3, [insert(one, KEYLESS)], epoch=3)
    again.unordered = True
    lake.consumer(epoch=3).apply_batch(again)
    assert [found["name"] for found in lake.rows(KEYLESS.table)] == ["y"]


def test_properties_that_the_owner_set_since_stay(lake: Lake) -> None:
    """Its commit has no progress of ours."""
    some_history(lake)
    lake.spark().sql(f"ALTER TABLE delta.`{lake.path(TABLE)}` SET TBLPROPERTIES ('owner.mark' = '1')")
    lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert deltalake.DeltaTable(str(lake.path(TABLE))).metadata().configuration["owner.mark"] == "1"


def test_before_its_first_version_there_was_no_table(lake: Lake) -> None:
    some_history(lake)
    version = found(lake, 0)
    assert version is not None
    assert version.progress is None
    with pytest.raises(NeedsUserError, match="RPL-3411"):
        lake.consumer(epoch=2).rewind_table(TABLE, at(0))


def test_a_table_that_is_not_after_the_position_stays(lake: Lake) -> None:
    some_history(lake)
    assert found(lake, 7) is None
    assert lake.consumer(epoch=2).find_version(KEYLESS.table, at(1)) is None
    assert lake.consumer(epoch=2).rewind_table(KEYLESS.table, at(1)) is None


def test_a_vacuumed_version_is_refused_and_nothing_is_changed(lake: Lake) -> None:
    some_history(lake)
    table = deltalake.DeltaTable(str(lake.path(TABLE)))
    gone = set(lake.path(TABLE).glob("part-*")) - {lake.path(TABLE) / Path(uri).name for uri in table.file_uris()}
    assert gone
    for file in gone:
        file.unlink()
    _assert_refused(lake)


def test_a_version_whose_deletion_vectors_are_gone_is_refused(lake: Lake) -> None:
    some_history(lake)
    for file in lake.path(TABLE).glob("deletion_vector_*.bin"):
        file.unlink()
    _assert_refused(lake)


def test_a_version_whose_commit_is_gone_is_refused(lake: Lake) -> None:
    some_history(lake)
    deltalake.DeltaTable(str(lake.path(TABLE))).create_checkpoint()
    for version in range(3):
        (lake.path(TABLE) / "_delta_log" / f"{version:020}.json").unlink()
    _assert_refused(lake)


def _assert_refused(lake: Lake) -> None:
    version, rows = lake.version(TABLE), lake.rows(TABLE)
    with pytest.raises(NeedsUserError, match="RPL-3411"):
        found(lake, 2)
    with pytest.raises(NeedsUserError, match="RPL-3411"):
        lake.consumer(epoch=2).rewind_table(TABLE, at(2))
    assert (lake.version(TABLE), lake.rows(TABLE)) == (version, rows)


def test_a_zombie_that_wakes_up_afterwards_writes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has written its files already, and read the table before."""
    some_history(lake)
    zombie = lake.consumer(epoch=1)
    assert zombie.progress(TABLE) is not None
    written = KeyedApply.run

    def meanwhile(self: KeyedApply) -> object:
        monkeypatch.setattr(KeyedApply, "run", written)
        files = written(self)
        lake.consumer(epoch=2).rewind_table(TABLE, at(2))
        return files

    monkeypatch.setattr(KeyedApply, "run", meanwhile)
    with pytest.raises(ReplicatorError) as error:
        zombie.apply_batch(batch(8, [insert({**row(11), "city": "late"}, WIDER)]))
    assert isinstance(error.value, FencedError | RetryableError)
    rows = lake.rows(TABLE)
    assert 11 not in {one["id"] for one in rows}
    with pytest.raises(FencedError, match="RPL-8401"):
        zombie.apply_batch(batch(8, [insert({**row(11), "city": "late"}, WIDER)]))
    with pytest.raises(FencedError, match="RPL-8401"):
        lake.consumer(epoch=1).rewind_table(TABLE, at(1))
    assert lake.rows(TABLE) == rows
