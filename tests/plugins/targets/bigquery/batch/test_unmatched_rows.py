"""Tables without a key whose removals come before their inserts, since the log's partitions have no common order."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from replicator_sdk.batch import TableChanges
from replicator_sdk.datatype import STRING
from replicator_sdk.errors import DataError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, replace_columns
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.spread_history import spread_history
from replicator_target_bigquery.batch import table_merge
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from tests.plugins.targets.bigquery.support.changes import KEYLESS, alter, at, ddl, delete, insert
from tests.plugins.targets.bigquery.support.project import Project
from tests.plugins.targets.changes import batch as in_order

_A, _B = {"name": "a", "number": 1}, {"name": "b", "number": 2}
_EXTRA = Column("extra", STRING)
_WIDER = replace_columns(KEYLESS, (*KEYLESS.columns, _EXTRA))


def _batch(position: int, *changes: RowChange, epoch: int = 1) -> TableChanges:
    made = in_order(position, changes, epoch=epoch)
    made.unordered = True
    return made


def _rows(project: Project, columns: str = "name, number") -> list[list[Any]]:
    live = " WHERE _is_deleted IS NOT TRUE" if project.config.soft_deletes else ""
    return sorted(project.select(f"SELECT {columns} FROM {{d}}.log{live}"), key=str)


def _waiting(project: Project, table: str = "log") -> list[list[Any]]:
    return project.select(f"SELECT _row, _copies FROM {{d}}._replicator_unmatched_{table} ORDER BY _row")


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_of_three_partitions_end_as_the_source(project: Project, seed: int, *, soft: bool) -> None:
    """Each window is a batch of a consumer of its own run; after each the rows are those that came and did not go."""
    project.config = project.config.model_copy(update={"soft_deletes": soft})
    for number, window in enumerate(spread_history(random.Random(seed), KEYLESS, changes=20), 1):
        consumer = BatchMergeConsumer(project.config, project.context(epoch=number))
        consumer.apply_batch(_batch(number, *window.changes, epoch=number))
        consumer.stop()
        found = Counter((name, None if size is None else int(size)) for name, size in _rows(project))
        assert found == Counter(tuple(row.values()) for row in window.rows)


def test_without_what_is_stored_the_rows_stay(project: Project) -> None:
    """The twin: the same changes, taken for changes in one order."""
    consumer, windows = project.consumer(), list(spread_history(random.Random(1), KEYLESS, changes=20))
    for number, window in enumerate(windows, 1):
        consumer.apply_batch(in_order(number, window.changes))
    assert len(_rows(project)) > len(windows[-1].rows)


def test_a_removal_that_came_first_follows_the_columns_of_its_table(project: Project) -> None:
    """A column is added, another renamed; then the row arrives, in its new form."""
    consumer = project.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    assert _waiting(project) == [['{"name":"a","number":1}', "1"]]
    added = Alter(AlterKind.ADD_COLUMN, _EXTRA, default="x")
    consumer.apply_ddl(alter(2, _WIDER, added))
    renamed = replace_columns(_WIDER, (Column("title", STRING), *_WIDER.columns[1:]))
    step = Alter(AlterKind.RENAME_COLUMN, renamed.columns[0], KEYLESS.columns[0])
    consumer.apply_ddl(alter(3, renamed, step))
    assert _waiting(project) == [['{"title":"a","number":1,"extra":"x"}', "1"]]
    row = {"title": "a", "number": 1, "extra": "x"}
    consumer.apply_batch(_batch(4, insert(row, renamed), insert({**row, "number": 3}, renamed)))
    assert _rows(project, "title, number") == [["a", "3"], ["b", "2"]]
    assert _waiting(project) == []


def test_a_removal_that_came_first_follows_the_name_of_its_table(project: Project) -> None:
    consumer = project.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    renamed = replace(KEYLESS, table=TableId(KEYLESS.table.database, "later"))
    consumer.apply_ddl(ddl(2, DDLOperation.RENAME_TABLE, renamed, table=renamed.table, prev_table=KEYLESS.table))
    consumer.apply_batch(_batch(3, insert(_A, renamed)))
    assert project.select("SELECT name FROM {d}.later") == [["b"]]
    assert _waiting(project, "later") == []


def test_a_truncate_keeps_what_waits_and_a_dropped_table_forgets_it(project: Project) -> None:
    """The insert of a row that was removed before a TRUNCATE is before it, too."""
    consumer = project.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    consumer.apply_ddl(ddl(2, DDLOperation.TRUNCATE_TABLE, KEYLESS))
    consumer.apply_batch(_batch(3, insert(_A, KEYLESS)))
    assert _rows(project) == []
    consumer.apply_batch(_batch(4, delete(_A, KEYLESS)))
    consumer.apply_ddl(ddl(5, DDLOperation.DROP_TABLE, None, table=KEYLESS.table))
    consumer.apply_ddl(ddl(6, DDLOperation.CREATE_TABLE, KEYLESS))
    consumer.apply_batch(_batch(7, insert(_A, KEYLESS)))
    assert _rows(project) == [["a", "1"]]


def test_too_many_removals_without_their_rows_stop_the_table_and_nothing_of_the_batch_is_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_merge, "MOST_UNMATCHED", 1)
    consumer = project.consumer()
    consumer.apply_batch(_batch(1, insert(_B, KEYLESS), delete(_A, KEYLESS)))
    with pytest.raises(DataError, match="RPL-6532"):
        consumer.apply_batch(
            _batch(
                2,
                insert(_A, KEYLESS),
                insert(_A, KEYLESS),
                delete({"name": "c", "number": 3}, KEYLESS),
                delete({"name": "d", "number": 4}, KEYLESS),
            )
        )
    assert _rows(project) == [["b", "2"]]
    assert _waiting(project) == [['{"name":"a","number":1}', "1"]]
    progress = project.consumer().progress(KEYLESS.table)
    assert progress is not None
    assert progress.position == at(1)


def test_changes_in_one_order_store_nothing(project: Project) -> None:
    """A removal whose row another program deleted at the target is counted, as before."""
    consumer = project.consumer()
    consumer.apply_batch(in_order(1, [insert(_B, KEYLESS), delete(_A, KEYLESS)]))
    consumer.apply_batch(in_order(2, [insert(_A, KEYLESS)]))
    assert _rows(project) == [["a", "1"], ["b", "2"]]
    tables = project.select("SELECT table_name FROM {d}.INFORMATION_SCHEMA.TABLES")
    assert not [name for (name,) in tables if "unmatched" in name]
