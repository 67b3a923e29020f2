"""Changes of tables without a key whose order is unknown reach only targets that keep a removal until its row arrives."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from replicator_runtime.engine.apply.applier import BatchApplier, RowApplier
from replicator_runtime.engine.batching.batching import Batcher, TableBatch
from replicator_runtime.engine.batching.sequencer import CommitMark
from replicator_runtime.engine.maintenance.table_locks import TableLocks
from replicator_runtime.engine.tables.table_watermark import TableWatermark
from replicator_sdk import Position
from replicator_sdk.errors import DataError
from replicator_sdk.testing.histories.batches import to_batch
from replicator_sdk.testing.histories.reference import RowChange
from tests.plugins.targets.changes import KEYLESS, delete, insert
from tests.runtime.engine.log_model import Place, commits

_ROW = {"name": "a", "number": 1}


class _Consumer:
    """Notes what it takes."""

    def __init__(self, *, keeps_unmatched: bool) -> None:
        self.keeps_unmatched = keeps_unmatched
        self.taken: list[bool] = []

    def apply_batch(self, changes: Any) -> None:
        self.taken.append(changes.unordered)

    def apply_dml(self, event: object) -> None:
        self.taken.append(True)

    def flush(self) -> None:
        """Nothing is held."""


def _batches(change: RowChange, *, spill_bytes: int = 1 << 20, lacks_rows: bool = False) -> list[TableBatch]:
    watermark = TableWatermark(Position(Place(0)), lacks_rows=lacks_rows)
    batcher = Batcher((Place(0), 0), {KEYLESS.table: watermark}, generation=1, epoch=1, spill_bytes=spill_bytes)
    batcher.add(replace(to_batch([change], [0], 0), is_unordered=True))
    batcher.commit(CommitMark(commits([1], 1), Place(0), 1))
    return batcher.take()


def test_a_target_that_would_drop_a_removal_without_its_row_is_not_given_one() -> None:
    """Inserts it takes: their order does not matter."""
    consumer: Any = _Consumer(keeps_unmatched=False)
    with closing(BatchApplier(consumer, 1, TableLocks())) as applier:
        assert not applier.apply(_batches(insert(_ROW, KEYLESS)), Place(1))
        failures = applier.apply(_batches(delete(_ROW, KEYLESS)), Place(1))
    assert getattr(failures[KEYLESS.table], "code", "") == "RPL-5001"
    assert consumer.taken == [True]


def test_a_target_that_takes_rows_one_by_one_is_not_given_any_of_that_batch() -> None:
    consumer: Any = _Consumer(keeps_unmatched=False)
    with pytest.raises(DataError, match="RPL-5001"):
        RowApplier(consumer).apply(_batches(delete(_ROW, KEYLESS)), Place(1))
    assert not consumer.taken


@pytest.mark.parametrize("spill_bytes", [0, 1 << 20])
def test_a_target_that_keeps_them_learns_that_they_have_no_order(spill_bytes: int) -> None:
    """Also when the changes were on disk."""
    consumer: Any = _Consumer(keeps_unmatched=True)
    (batch,) = _batches(delete(_ROW, KEYLESS), spill_bytes=spill_bytes)
    with closing(BatchApplier(consumer, 1, TableLocks())) as applier, closing(batch):
        assert not applier.apply([batch], Place(1))
    assert consumer.taken == [True]


def test_where_inserts_are_left_out_no_removal_waits_for_one() -> None:
    """The pipeline's `dmlBlacklist` has INSERT or UPDATE: the row never arrives."""
    (batch,) = _batches(delete(_ROW, KEYLESS), lacks_rows=True)
    assert not batch.changes.unordered


def test_a_key_whose_last_change_is_unknown_stops_its_table_at_every_target() -> None:
    consumer: Any = _Consumer(keeps_unmatched=True)
    (batch,) = _batches(insert(_ROW, replace(KEYLESS, primary_key=("number",))))
    with closing(BatchApplier(consumer, 1, TableLocks())) as applier:
        failures = applier.apply([batch], Place(1))
    assert getattr(failures[KEYLESS.table], "code", "") == "RPL-5002"
    assert not consumer.taken
