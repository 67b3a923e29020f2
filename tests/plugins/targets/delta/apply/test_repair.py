"""Some rows are written again in one commit of this run: other rows and the table's position stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import FencedError, RetryableError
from tests.plugins.targets.changes import TABLE, at, batch, delete, insert, row, update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.plugins.targets.delta.lake import Lake


def by_key(lake: Lake) -> list[tuple[int, str]]:
    return sorted((one["id"], one["name"]) for one in lake.rows(TABLE))


def test_rows_of_the_keys_are_as_given_and_the_position_stays(lake: Lake, spark: SparkSession) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key, "a")) for key in range(1, 7)]))
    place = f"delta.`{lake.path(TABLE)}`"
    spark.sql(f"INSERT INTO {place} SELECT * FROM {place} WHERE id = 2")
    spark.sql(f"DELETE FROM {place} WHERE id = 3")
    before = lake.consumer(epoch=2).progress(TABLE)
    assert before is not None
    changes = [delete({"id": 6}), insert(row(2, "b")), insert(row(3, "b")), insert(row(4, "b"))]
    for _ in range(2):
        consumer = lake.consumer(epoch=2)
        consumer.repair_rows(batch(1, changes, epoch=2, overlap=True))
        assert by_key(lake) == [(1, "a"), (2, "b"), (3, "b"), (4, "b"), (5, "a")]
        progress = lake.consumer(epoch=2).progress(TABLE)
        assert progress is not None
        assert replace(progress, batch="", epoch=0) == replace(before, batch="", epoch=0)
        assert progress.epoch == 2
    consumer.apply_batch(batch(2, [update(row(4, "c")), delete({"id": 1})], epoch=2, overlap=True))
    assert by_key(lake) == [(2, "b"), (3, "b"), (4, "c"), (5, "a")]
    with pytest.raises(FencedError):
        lake.consumer(epoch=1).repair_rows(batch(2, [delete({"id": 5})], overlap=True))


@pytest.mark.parametrize("position", [1, 3])
def test_a_table_at_another_position_is_left_as_it_is(lake: Lake, position: int) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(2, [insert(row(1, "a"))]))
    version = lake.version(TABLE)
    with pytest.raises(RetryableError) as raised:
        consumer.repair_rows(batch(position, [delete({"id": 1})], overlap=True))
    assert raised.value.code == "RPL-4115"
    assert lake.version(TABLE) == version
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(2)
