"""OPTIMIZE of Spark beside the stream: files are replaced between two batches, and while one is applied."""

from __future__ import annotations

from typing import Any

import pytest

from replicator_sdk.errors import RetryableError
from replicator_target_delta.log.transaction_log import Transaction
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.delta.lake import Lake


def optimize(lake: Lake) -> None:
    """As a user's job does it; files are replaced."""
    before = lake.version(TABLE)
    lake.spark().sql(f"OPTIMIZE delta.`{lake.path(TABLE)}`").collect()
    assert lake.version(TABLE) == before + 1


def rows_of(lake: Lake) -> dict[int, str | None]:
    """Each row once."""
    rows = lake.rows(TABLE)
    found = {r["id"]: r["name"] for r in rows}
    assert len(found) == len(rows)
    return found


def test_rows_that_optimize_moved_between_two_batches_are_found(lake: Lake) -> None:
    consumer = lake.consumer()
    for number in range(1, 5):
        consumer.apply_batch(batch(number, [insert(row(number, "old")), insert(row(10 + number, "old"))]))
    optimize(lake)
    consumer.apply_batch(batch(5, [update(row(1, "new")), delete({"id": 2})]))
    optimize(lake)
    consumer.apply_batch(batch(6, [update({"id": 11, "note": "n"}), delete({"id": 1})]))
    assert rows_of(lake) == dict.fromkeys((3, 4, 11, 12, 13, 14), "old")


def test_optimize_that_commits_while_a_batch_is_applied_loses_and_doubles_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is applied on the new files, at once or by its next attempt."""
    consumer = lake.consumer()
    for number in range(1, 4):
        consumer.apply_batch(batch(number, [insert(row(number, "old"))]))
    commit, times = Transaction.commit, 0

    def between(self: Transaction, *args: Any, **kwargs: Any) -> None:
        nonlocal times
        times += 1
        if times == 1:
            optimize(lake)
        commit(self, *args, **kwargs)

    monkeypatch.setattr(Transaction, "commit", between)
    changes = batch(4, [update(row(1, "new")), delete({"id": 2}), insert(row(9, "new"))])
    for _ in range(3):
        try:
            consumer.apply_batch(changes)
        except RetryableError:
            continue
        break
    assert rows_of(lake) == {1: "new", 3: "old", 9: "new"}
    consumer.apply_batch(changes)
    progress = lake.consumer().progress(KEYED.table)
    assert progress is not None
    assert progress.position == at(4)
    assert rows_of(lake) == {1: "new", 3: "old", 9: "new"}
