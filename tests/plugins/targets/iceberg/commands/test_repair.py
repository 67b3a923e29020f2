"""Single rows are written again in one commit that leaves the table at its position; read by `pyiceberg`."""

from __future__ import annotations

import pytest

from replicator_sdk.errors import FencedError, RetryableError
from tests.plugins.targets.changes import TABLE, at, batch, delete, insert, row, update
from tests.plugins.targets.iceberg.warehouse import Warehouse


def test_rows_of_the_given_keys_are_replaced_and_the_position_stays(warehouse: Warehouse) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(5)]))
    repaired = batch(1, [insert(row(1, "right")), delete({"id": 2}), insert(row(9, "new"))], epoch=2, overlap=True)
    again = warehouse.consumer(epoch=2)
    for _ in range(2):
        again.repair_rows(repaired)
        rows = sorted((one["id"], one["name"]) for one in warehouse.rows(TABLE))
        assert rows == [(0, "a"), (1, "right"), (3, "a"), (4, "a"), (9, "new")]
    progress = again.progress(TABLE)
    assert progress is not None
    assert (progress.position, progress.epoch) == (at(1), 2)
    with pytest.raises(FencedError, match="RPL-8420"):
        consumer.repair_rows(repaired)
    again.apply_batch(batch(2, [update(row(3, "later"))], epoch=2))
    with pytest.raises(RetryableError, match="RPL-4115"):
        again.repair_rows(repaired)
