"""Claims about applying batches that the conformance kit does not make."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk.datatype import FLOAT64, INT64, STRING
from replicator_sdk.errors import DataError, NeedsUserError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.net_change import partial_rows as incomplete
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.log.transaction_log import TableLog
from tests.plugins.targets.changes import KEYED, KEYLESS, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake


def names(lake: Lake) -> dict[int, tuple[str | None, str | None]]:
    return {r["id"]: (r["name"], r["note"]) for r in lake.rows(TABLE)}


def test_metadata_columns_say_which_change_wrote_a_row(lake: Lake) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1)), insert(row(2))]))
    found = {r["id"]: (r["_sequence_num"], r["_source_timestamp"].timestamp()) for r in lake.rows(TABLE)}
    assert found == {1: (1001, 1_700_000_000), 2: (1002, 1_700_000_000)}


def test_a_replayed_batch_makes_no_commit(lake: Lake) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    before = lake.version(TABLE)
    lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    assert lake.version(TABLE) == before


def test_columns_not_sent_keep_their_old_values_also_when_the_key_moves_and_rows_lack_different_ones(
    lake: Lake,
) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i, f"n{i}", f"t{i}")) for i in range(5)]))
    changes = [
        update({"id": 1, "name": "new"}),
        update({"id": 2, "note": "new"}),
        update({"id": 30, "name": "moved"}, before={"id": 3}),
        update({"id": 3}, before={"id": 4}),
    ]
    consumer.apply_batch(batch(2, changes))
    assert names(lake) == {
        0: ("n0", "t0"),
        1: ("new", "t1"),
        2: ("n2", "new"),
        30: ("moved", "t3"),
        3: ("n4", "t4"),
    }


def test_rows_waiting_for_old_values_may_be_larger_than_memory_allows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are spilled to a file that is gone afterwards; the result is the same."""
    monkeypatch.setattr(incomplete, "_IN_MEMORY", 100)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i, f"n{i}", f"t{i}")) for i in range(50)]))
    consumer.apply_batch(batch(2, [update({"id": i, "name": "new"}) for i in range(50)]))
    assert names(lake) == {i: ("new", f"t{i}") for i in range(50)}


def test_an_update_that_needs_values_of_a_removed_row_is_an_error_and_changes_nothing(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "b"))]))
    version = lake.version(TABLE)
    with pytest.raises(DataError, match="RPL-5401") as error:
        consumer.apply_batch(batch(2, [insert(row(7)), update({"id": 9, "name": "x"})]))
    assert error.value.table == str(TABLE)
    assert lake.version(TABLE) == version


def test_in_an_overlap_a_moved_row_without_all_its_columns_asks_for_a_new_copy(lake: Lake) -> None:
    """Its old key may be another row's by now: here the snapshot read row 2 after the move, and a new row 1."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "other", "of another row")), insert(row(2, "name", "long"))]))
    version = lake.version(TABLE)
    with pytest.raises(SnapshotNeededError, match="RPL-5403"):
        consumer.apply_batch(batch(2, [update({"id": 2, "name": "name"}, before={"id": 1})], overlap=True))
    assert lake.version(TABLE) == version


def test_in_an_overlap_an_update_of_a_row_that_is_gone_waits_for_the_change_that_removed_it(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "b"))]))
    consumer.apply_batch(batch(2, [update({"id": 5, "name": "x"}), delete({"id": 6})], overlap=True))
    assert names(lake) == {1: ("a", "b")}


@pytest.mark.parametrize("soft", [False, True])
def test_values_that_are_nowhere_are_an_error_when_no_snapshot_of_the_runtime_explains_it(
    lake: Lake, *, soft: bool
) -> None:
    """As a log of delete and insert has a row that moved to another key, without a value that did not change.

    A kept deleted row under the new key is another row's.
    """
    target = Lake(lake.path(TABLE).parent.parent, lake.spark(), soft_deletes=soft)
    consumer = target.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "long")), insert(row(5, "other", "of another row"))]))
    consumer.apply_batch(batch(2, [delete({"id": 5})]))
    version = target.version(TABLE)
    moved = [delete({"id": 1}), update({"id": 5, "name": "a"})]
    with pytest.raises(DataError, match="RPL-5405") as error:
        consumer.apply_batch(batch(3, moved, overlap=True, drops_lost_updates=False))
    assert error.value.table == str(TABLE)
    assert target.version(TABLE) == version


def test_a_moved_row_is_completed_though_the_row_under_its_old_key_is_kept_as_deleted(lake: Lake) -> None:
    soft = Lake(lake.path(TABLE).parent.parent, lake.spark(), soft_deletes=True)
    consumer = soft.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "long"))]))
    consumer.apply_batch(batch(2, [update({"id": 2, "name": "b"}, before={"id": 1})]))
    found = {r["id"]: (r["name"], r["note"], r["_is_deleted"]) for r in soft.rows(TABLE)}
    assert found == {1: ("a", "long", True), 2: ("b", "long", False)}


def test_a_whole_file_deleted_leaves_the_table_without_it(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i)) for i in range(10)]))
    consumer.apply_batch(batch(2, [delete({"id": i}) for i in range(10)]))
    assert lake.rows(TABLE) == []


def test_rows_deleted_in_many_small_batches_are_gone_once_each(lake: Lake) -> None:
    """Deletion vectors grow over earlier ones."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i)) for i in range(20)]))
    for i in range(5):
        consumer.apply_batch(batch(2 + i, [delete({"id": i}), update(row(10 + i, "new"))]))
    assert {r["id"]: r["name"] for r in lake.rows(TABLE)} == {
        **dict.fromkeys(range(5, 20)),
        **dict.fromkeys(range(10, 15), "new"),
    }


def test_deletes_of_missing_rows_are_counted(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(2, [delete({"id": 1}), delete({"id": 8})]))
    assert consumer._context.metrics.counters["dml.missing"] == 1  # type: ignore[attr-defined]


def test_float_keys_find_nan_and_both_zeros(lake: Lake) -> None:
    schema = TableSchema(TableId("shop", "floats"), (Column("k", FLOAT64), Column("v", STRING)), ("k",))
    consumer = lake.consumer()
    rows: list[dict[str, Any]] = [{"k": float("nan"), "v": "a"}, {"k": 0.0, "v": "b"}, {"k": None, "v": "c"}]
    consumer.apply_batch(batch(1, [insert(r, schema) for r in rows]))
    news: list[dict[str, Any]] = [{"k": float("nan"), "v": "A"}, {"k": -0.0, "v": "B"}, {"k": None, "v": "C"}]
    consumer.apply_batch(batch(2, [update(r, schema) for r in news]))
    assert sorted(r["v"] for r in lake.rows(schema.table)) == ["A", "B", "C"]


def test_soft_deleted_rows_keep_their_values_and_come_back_by_an_insert(lake: Lake) -> None:
    soft = Lake(lake.path(TABLE).parent.parent, lake.spark(), soft_deletes=True)
    consumer = soft.consumer()
    consumer.apply_batch(batch(1, [insert(row(i, f"n{i}", f"t{i}")) for i in range(4)]))
    consumer.apply_batch(batch(2, [delete({"id": 1}), delete({"id": 2}), delete({"id": 9})]))
    found = {r["id"]: (r["name"], r["note"], r["_is_deleted"], r["_sequence_num"]) for r in soft.rows(TABLE)}
    assert found[1] == ("n1", "t1", True, 2001)
    assert found[0] == ("n0", "t0", False, 1001)
    assert sorted(found) == [0, 1, 2, 3]
    consumer.apply_batch(batch(3, [insert(row(1, "again"))]))
    back = {r["id"]: (r["name"], r["_is_deleted"]) for r in soft.rows(TABLE)}
    assert back == {0: ("n0", False), 1: ("again", False), 2: ("n2", True), 3: ("n3", False)}


def test_soft_deletes_without_a_key_mark_as_many_copies_as_the_source_removed(lake: Lake) -> None:
    soft = Lake(lake.path(TABLE).parent.parent, lake.spark(), soft_deletes=True)
    consumer = soft.consumer()
    twin = {"name": "a", "number": 1}
    consumer.apply_batch(batch(1, [insert(twin, KEYLESS)] * 3))
    consumer.apply_batch(batch(2, [delete(twin, KEYLESS)]))
    consumer.apply_batch(batch(3, [delete(twin, KEYLESS)]))
    assert sorted(r["_is_deleted"] for r in soft.rows(KEYLESS.table)) == [False, True, True]


def test_without_a_key_exactly_n_of_k_equal_rows_go_even_over_several_files(lake: Lake) -> None:
    consumer = lake.consumer()
    twin = {"name": None, "number": 1}
    for position in (1, 2, 3):
        consumer.apply_batch(batch(position, [insert(twin, KEYLESS)] * 2))
    consumer.apply_batch(batch(4, [delete(twin, KEYLESS)] * 3 + [insert({"name": "b", "number": None}, KEYLESS)]))
    assert sorted((r["name"] or "", r["number"] or 0) for r in lake.rows(KEYLESS.table)) == [("", 1)] * 3 + [("b", 0)]


def test_metadata_columns_can_be_left_out_and_have_another_prefix(lake: Lake) -> None:
    base = lake.path(TABLE).parent.parent
    none = Lake(base / "none", lake.spark(), metadata_columns=())
    none.consumer().apply_batch(batch(1, [insert(row(1))]))
    assert set(none.rows(TABLE)[0]) == {"id", "name", "note"}
    other = Lake(base / "other", lake.spark(), metadata_columns=("_op", "_batch_id"), metadata_prefix="r$")
    other.consumer().apply_batch(batch(1, [insert(row(1))]))
    assert {k: v for k, v in other.rows(TABLE)[0].items() if "$" in k} == {"r$op": "I", "r$batch_id": "1-1-1001-1001"}


def test_a_table_of_another_owner_is_refused_and_left_alone(lake: Lake) -> None:
    lake.spark().range(3).write.format("delta").save(str(lake.path(TABLE)))
    with pytest.raises(NeedsUserError, match="RPL-340"):
        lake.consumer().progress(TABLE)
    lake.consumer(name="another").apply_batch(batch(1, [insert({"name": "a", "number": 1}, KEYLESS)]))
    with pytest.raises(NeedsUserError, match="RPL-3404"):
        lake.consumer().progress(KEYLESS.table)
    assert lake.version(TABLE) == 0


def test_changes_with_other_columns_than_the_table_are_drift(lake: Lake) -> None:
    lake.consumer().apply_batch(batch(1, [insert(row(1))]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("more", INT64)), ("id",))
    with pytest.raises(SchemaDriftError, match="RPL-6405"):
        lake.consumer().apply_batch(batch(2, [insert({**row(2), "more": 1}, wider)]))


def test_columns_that_differ_by_case_only_are_refused(lake: Lake) -> None:
    schema = TableSchema(TABLE, (Column("a", INT64), Column("A", INT64)), ("a",))
    with pytest.raises(SchemaDriftError, match="RPL-6401"):
        lake.consumer().apply_batch(batch(1, [insert({"a": 1, "A": 2}, schema)]))
    with lake.target.create_table_assessor() as assessor:
        assert [f.name for f in assessor.assess_table(schema).findings] == ["column_names_meet"]


def test_progress_survives_the_clean_up_of_older_log_files(lake: Lake) -> None:
    """It is in the checkpoint, not only in the commit that wrote it."""
    consumer = lake.consumer()
    for position in (1, 2):
        consumer.apply_batch(batch(position, [insert(row(position))]))
    lake.spark().sql(f"OPTIMIZE delta.`{lake.path(TABLE)}`").collect()
    log = TableLog(lake.spark(), str(lake.path(TABLE)))
    log.begin()
    log.checkpoint(1)
    for version in (0, 1):
        for file in (lake.path(TABLE) / "_delta_log").glob(f"{version:020}.*"):
            file.unlink()
    for file in (lake.path(TABLE) / "_delta_log").glob("*.crc"):
        file.unlink()
    found = lake.consumer().progress(TABLE)
    assert found is not None
    assert found.position == at(2)
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2]
