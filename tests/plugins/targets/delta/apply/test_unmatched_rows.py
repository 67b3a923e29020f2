"""Tables without a key whose removals come before their inserts, since the log's partitions have no common order."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator_sdk.batch import TableChanges
from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import DataError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, replace_columns
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.spread_history import spread_history
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_target_delta.apply import unmatched_rows
from tests.plugins.targets.changes import KEYLESS, alter, at, ddl, delete, insert, update
from tests.plugins.targets.changes import batch as in_order
from tests.plugins.targets.delta.folder_table import FolderTable
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_A, _B = {"name": "a", "number": 1}, {"name": "b", "number": 2}
_EXTRA = Column("extra", STRING)
_WIDER = replace_columns(KEYLESS, (*KEYLESS.columns, _EXTRA))


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    return Lake(tmp_path / "lake", spark)


def _batch(position: int, *changes: RowChange) -> TableChanges:
    made = in_order(position, changes)
    made.unordered = True
    return made


def _rows(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[c] for c in columns or ("name", "number")) for row in lake.rows(KEYLESS.table))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30), st.booleans(), st.integers(2, 5))
def test_random_histories_of_several_partitions_end_as_the_source(seed: int, soft: bool, partitions: int) -> None:
    """After each window the rows are those that came and did not go."""
    with TemporaryDirectory() as folder:
        table = FolderTable(Path(folder), KEYLESS, soft_deletes=soft)
        for number, window in enumerate(spread_history(random.Random(seed), KEYLESS, partitions=partitions), 1):
            table.apply(_batch(number, *window.changes))
            live = [row for row in table.rows() if not row.get("_is_deleted")]
            assert Counter((row["name"], row["number"]) for row in live) == Counter(
                tuple(row.values()) for row in window.rows
            )


def test_without_what_is_stored_some_of_these_histories_end_with_other_rows() -> None:
    """The twin: the same histories, with nothing stored between batches."""
    wrong = 0
    for seed in range(20):
        with TemporaryDirectory() as folder:
            table = FolderTable(Path(folder), KEYLESS)
            rows: list[dict[str, Any]] = []
            for number, window in enumerate(spread_history(random.Random(seed), KEYLESS), 1):
                table.state.unmatched = ""
                table.apply(_batch(number, *window.changes))
                rows = window.rows
            found = Counter((row["name"], row["number"]) for row in table.rows())
            wrong += found != Counter(tuple(row.values()) for row in rows)
    assert wrong > 5


def test_a_removal_that_came_first_is_stored_by_its_commit(lake: Lake) -> None:
    """Another consumer, which reads the log, and one after a checkpoint know of it."""
    lake.consumer().apply_batch(_batch(1, delete(_A, KEYLESS), delete(_A, KEYLESS), insert(_B, KEYLESS)))
    lake.consumer(epoch=2).apply_batch(_batch(2, insert(_A, KEYLESS)))
    lake.maintain(KEYLESS.table, epoch=2)
    assert _rows(lake) == [("b", 2)]
    third = lake.consumer(epoch=3)
    third._table(KEYLESS.table).log.checkpoint(1)
    third._table(KEYLESS.table).log.forget()
    third.apply_batch(_batch(3, insert(_A, KEYLESS), insert(_A, KEYLESS)))
    assert _rows(lake) == [("a", 1), ("b", 2)]
    third.apply_batch(_batch(4, insert(_A, KEYLESS)))
    assert _rows(lake) == [("a", 1), ("a", 1), ("b", 2)]


def test_a_removal_that_came_first_follows_the_columns_of_its_table(lake: Lake) -> None:
    """A column is added with a default, another renamed, a third gets another type; then the row arrives, in its new form."""
    consumer = lake.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    consumer.apply_ddl(alter(2, _WIDER, Alter(AlterKind.ADD_COLUMN, _EXTRA, default="x")))
    renamed = replace_columns(_WIDER, (Column("title", STRING), *_WIDER.columns[1:]))
    consumer.apply_ddl(alter(3, renamed, Alter(AlterKind.RENAME_COLUMN, renamed.columns[0], KEYLESS.columns[0])))
    retyped = replace_columns(renamed, (renamed.columns[0], Column("number", STRING), _EXTRA))
    step = Alter(AlterKind.RETYPE_COLUMN, retyped.columns[1], Column("number", INT64))
    consumer.apply_ddl(alter(4, retyped, step))
    row = {"title": "a", "number": "1", "extra": "x"}
    consumer.apply_batch(_batch(5, insert(row, retyped), insert({**row, "number": "3"}, retyped)))
    assert _rows(lake, "title", "number", "extra") == [("a", "3", "x"), ("b", "2", "x")]


def test_rows_that_a_dropped_column_makes_equal_wait_as_one(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(_batch(1, delete(_A, KEYLESS), delete({**_A, "number": 2}, KEYLESS)))
    narrow = replace_columns(KEYLESS, KEYLESS.columns[:1])
    consumer.apply_ddl(alter(2, narrow, Alter(AlterKind.DROP_COLUMN, previous=KEYLESS.columns[1])))
    consumer.apply_batch(_batch(3, *[insert({"name": "a"}, narrow)] * 3))
    assert _rows(lake, "name") == [("a",)]


@pytest.mark.parametrize(("replace", "left"), [("truncate", []), ("create", [("a", 1)]), ("copy", [("a", 1)])])
def test_a_truncate_keeps_what_waits_and_a_new_table_or_copy_forgets_it(
    lake: Lake, replace: str, left: list[tuple[str, int]]
) -> None:
    """The insert of a row that was removed before a TRUNCATE is before it, too."""
    consumer = lake.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    if replace == "truncate":
        consumer.apply_ddl(ddl(3, DDLOperation.TRUNCATE_TABLE, KEYLESS))
    elif replace == "create":
        consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None, table=KEYLESS.table))
        consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, KEYLESS))
    else:
        chunk = SnapshotChunk(0, {"rest": 0, "of": 1})
        consumer.begin_snapshot(KEYLESS, "plan", at(3))
        consumer.load_chunks(KEYLESS, "plan", [chunk], MemoryChunkReader(KEYLESS, []))
        consumer.finish_snapshot(KEYLESS, "plan", at(3))
    consumer.apply_batch(_batch(4, insert(_A, KEYLESS)))
    assert _rows(lake) == left


def test_too_many_removals_without_their_rows_stop_the_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of their batch is there, and nothing is forgotten."""
    monkeypatch.setattr(unmatched_rows, "MOST_ROWS", 1)
    consumer = lake.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    more = _batch(2, insert(_B, KEYLESS), delete({**_A, "number": 7}, KEYLESS))
    with pytest.raises(DataError, match="RPL-5407"):
        consumer.apply_batch(more)
    assert _rows(lake) == [("b", 2)]
    consumer.apply_batch(_batch(2, insert(_A, KEYLESS), delete({**_A, "number": 7}, KEYLESS)))
    assert _rows(lake) == [("b", 2)]


def test_changes_in_one_order_store_nothing(lake: Lake) -> None:
    """A removal whose row another program deleted at the target is counted, as before."""
    consumer = lake.consumer()
    consumer.apply_batch(in_order(1, [insert(_B, KEYLESS), delete(_A, KEYLESS)]))
    consumer.apply_batch(in_order(2, [insert(_A, KEYLESS)]))
    assert _rows(lake) == [("a", 1), ("b", 2)]


def test_a_change_of_a_row_that_comes_later_leaves_the_new_row_only(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(_batch(1, update(_B, KEYLESS, _A)))
    assert _rows(lake) == [("b", 2)]
    consumer.apply_batch(_batch(2, insert(_A, KEYLESS)))
    assert _rows(lake) == [("b", 2)]
