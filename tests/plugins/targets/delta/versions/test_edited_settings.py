"""The mode `scd2` after an edit of the target's settings: what is refused, and what a new copy keeps of the history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.errors import SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import SnapshotChunk
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake
from tests.plugins.targets.delta.versions.versions_lake import VersionsLake
from tests.plugins.targets.snapshot_rows import SnapshotRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK = [SnapshotChunk(0, {})]


def spans(lake: VersionsLake, prefix: str = "_") -> list[tuple[Any, ...]]:
    """Of all versions, which rows they are, which changes opened and ended them, and whether they have a beginning and an end."""
    kinds = ("sequence_num", "end_sequence_num", "is_current", "valid_from", "valid_to")
    found = [(one["id"], one["name"], *(one[prefix + kind] for kind in kinds)) for one in lake.versions(TABLE)]
    return sorted((*one[:5], one[5] is not None, one[6] is not None) for one in found)


@pytest.mark.parametrize("beside", [True, False])
def test_a_copy_under_another_prefix_keeps_the_history(tmp_path: Path, spark: SparkSession, *, beside: bool) -> None:
    lake = VersionsLake(tmp_path / "lake", spark)
    lake.consumer().apply_batch(batch(1, [insert(row(1, "a")), update(row(1, "b")), insert(row(2, "a"))]))
    lake.consumer().apply_batch(batch(2, [delete(row(2, "a")), insert(row(3, "a"))]))
    expected = [
        (1, "a", 1001, 1002, False, True, True),
        (1, "b", 1002, None, True, True, False),
        (2, "a", 1003, 2001, False, True, True),
        (3, "a", 2002, None, True, True, False),
    ]
    assert spans(lake) == expected
    other = VersionsLake(tmp_path / "lake", spark, metadataPrefix="r_")
    consumer, rows = other.consumer(epoch=2), SnapshotRows(KEYED, [(1, "b", None), (3, "a", None)])
    with pytest.raises(SchemaDriftError) as raised:
        consumer.apply_batch(batch(3, [update(row(1, "c"))], epoch=2))
    assert raised.value.code == "RPL-6405"
    if beside:
        consumer.load_whole(KEYED, "plan", at(3), CHUNK, rows, lambda: None)
    else:
        consumer.begin_snapshot(KEYED, "plan", at(3))
        assert spans(other, "r_") == expected
        consumer.load_chunks(KEYED, "plan", CHUNK, rows)
        consumer.finish_snapshot(KEYED, "plan", at(3))
    assert spans(other, "r_") == expected


@pytest.mark.parametrize("made_by", [{"mode": "scd2"}, {"mode": "merge"}], ids=["scd2", "merge"])
def test_changes_of_structure_of_a_table_of_another_mode_are_refused_until_it_is_copied_again(
    tmp_path: Path, spark: SparkSession, made_by: dict[str, Any]
) -> None:
    """Put back, the setting finds the table as it was."""
    first = Lake(tmp_path / "lake", spark, **made_by)
    other = Lake(tmp_path / "lake", spark, mode="merge" if made_by["mode"] == "scd2" else "scd2")
    first.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    renamed = TableSchema(TABLE, (Column("number", KEYED["id"].type), *KEYED.columns[1:]), ("number",))
    rename = alter(2, renamed, Alter(AlterKind.RENAME_COLUMN, renamed["number"], KEYED["id"]), sequence_number=1500)
    for event in (ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500), rename):
        with pytest.raises(SchemaDriftError) as raised:
            other.consumer(epoch=2).apply_ddl(event)
        assert raised.value.code == "RPL-6405"
    consumer = first.consumer(epoch=3)
    consumer.apply_ddl(rename)
    consumer.apply_batch(batch(3, [update({"number": 1, "name": "b", "note": None}, renamed)], epoch=3))
    assert [one["name"] for one in first.rows(TABLE) if one.get("_is_current", True)] == ["b"]


def test_a_truncate_under_another_prefix_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    lake = VersionsLake(tmp_path / "lake", spark)
    lake.consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    other = VersionsLake(tmp_path / "lake", spark, metadataPrefix="r_")
    with pytest.raises(SchemaDriftError) as raised:
        other.consumer(epoch=2).apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE, sequence_number=1500))
    assert raised.value.code == "RPL-6405"
    assert [one["_is_current"] for one in lake.versions(TABLE)] == [True]


def test_the_next_step_says_that_a_copy_in_another_mode_takes_the_history_away(
    tmp_path: Path, spark: SparkSession
) -> None:
    VersionsLake(tmp_path / "lake", spark).consumer().apply_batch(batch(1, [insert(row(1, "a"))]))
    with pytest.raises(SchemaDriftError, match=r"history") as raised:
        Lake(tmp_path / "lake", spark).consumer(epoch=2).apply_batch(batch(2, [update(row(1, "b"))], epoch=2))
    assert "mode" in raised.value.hint
