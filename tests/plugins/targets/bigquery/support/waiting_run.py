"""The life of a table whose changes wait for `loadInterval`, by runs that save how far they are; a child process of it may be killed.

waiting_run.py SETTINGS EPOCH SAVED [waiting]: the last word has what waits count as durable.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from replicator_sdk.offset import Position
from replicator_sdk.testing.contexts import TestTargetContext
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from replicator_target_bigquery.batch.table_loads import TableLoads
from replicator_target_bigquery.config import BigQueryConfig
from tests.plugins.targets.bigquery.support.changes import KEYLESS, at, batch, insert

LAST = 5
"""How many rows the table has in the end, numbered from 1."""


def live(config: BigQueryConfig, epoch: int, saved: Path) -> None:
    """Bring the table to its end from what is saved, as the engine would."""
    consumer = BatchMergeConsumer(config, TestTargetContext(MemoryOffset.from_fields, epoch=epoch))
    first = int(saved.read_text()) + 1 if saved.exists() else 1
    for number in range(first, LAST + 1):
        row = {"name": "row", "number": number}
        consumer.apply_batch(batch(number, [insert(row, KEYLESS)], epoch=epoch))
        _save(consumer, saved)
    consumer.settle([KEYLESS.table])
    _save(consumer, saved)
    consumer.stop()


def _save(consumer: BatchMergeConsumer, saved: Path) -> None:
    settled = consumer.settled(KEYLESS.table)
    if settled is not None:
        saved.write_text(str(max(number for number in range(LAST + 1) if at(number) <= settled)))


def count_what_waits(patch: pytest.MonkeyPatch) -> None:
    """Changes that wait count as durable."""
    true_settled = TableLoads.settled

    def settled(self: TableLoads) -> Position | None:
        found = true_settled(self)
        return self._held.position if self._held is not None else found

    patch.setattr(TableLoads, "settled", settled)


def main(config: str, epoch: str, saved: str, *removed: str) -> None:
    """One run."""
    with pytest.MonkeyPatch.context() as patch:
        if removed:
            count_what_waits(patch)
        live(BigQueryConfig.model_validate_json(config), int(epoch), Path(saved))


if __name__ == "__main__":
    main(*sys.argv[1:])
