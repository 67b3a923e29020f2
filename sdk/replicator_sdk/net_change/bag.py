"""The net change of a table without a key: how many more or fewer of each distinct row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import ChangeBatch, Int64s
from replicator_sdk.errors import BugError
from replicator_sdk.event import DMLOperation
from replicator_sdk.net_change.keys import encode_rows, join
from replicator_sdk.schema import TableSchema


@dataclass(frozen=True, slots=True)
class NetBag:
    """Distinct rows whose number changes.

    Rows are equal when all their columns are, null-safely; NaN equals NaN and, as SQL compares, -0.0 equals 0.0: an
    update of 0.0 to -0.0 alone is no net change. Text is compared byte by byte, nested values element by element.

    Attributes:
        rows: The schema's columns, no row twice; their order means nothing.
        counts: For each row how many copies come (positive) or go (negative); never 0.
        sequence: For each row the sequence number of the last change that touched it.
        timestamp: Its commit time at the source, microseconds since 1970 UTC; -1 unknown.
        inserts: INSERTs seen.
        updates: UPDATEs seen.
        removals: DELETEs seen.
    """

    rows: pa.Table
    counts: Int64s
    sequence: Int64s
    timestamp: Int64s
    inserts: int
    updates: int
    removals: int

    def __len__(self) -> int:
        return len(self.counts)


def net_bag(batches: Iterable[ChangeBatch], schema: TableSchema) -> NetBag:
    """The net count of each distinct row of `batches`: +1 for each row after a change, -1 for each row before one.

    Args:
        batches: In source order, all under `schema`, held in memory; every UPDATE and DELETE with the whole row before.
        schema: Of a table without a key.

    Raises:
        BugError: When a change is not numbered, or lacks the row before or a column.
    """
    images: list[_Image] = []
    seen = np.zeros(max(DMLOperation) + 1, np.int64)
    for batch in batches:
        op = batch.op.to_numpy(zero_copy_only=False)
        seen += np.bincount(op, minlength=len(seen))
        images += _images(batch, op)
    columns = pa.concat_arrays([pa.array([], schema.struct), *(i.rows for i in images)]).flatten()
    weight = join([np.full(len(i.rows), i.weight, np.int64) for i in images], np.int64)
    sequence = join([i.sequence for i in images], np.int64)
    timestamp = join([i.timestamp for i in images], np.int64)
    codes, count = encode_rows(columns) if columns else (np.zeros(len(weight), np.int64), 1)
    net = np.zeros(count, np.int64)
    np.add.at(net, codes, weight)
    last = np.zeros(count, np.int64)
    by_time = np.argsort(sequence, kind="stable")
    last[codes[by_time]] = by_time  # of equal indexes numpy keeps the last assignment
    kept = np.flatnonzero(net)
    places = last[kept]
    rows = [column.take(pa.array(places)) for column in columns]
    return NetBag(
        pa.Table.from_arrays(rows, schema=schema.arrow),
        net[kept],
        sequence[places],
        timestamp[places],
        int(seen[DMLOperation.INSERT]),
        int(seen[DMLOperation.UPDATE]),
        int(seen[DMLOperation.DELETE]),
    )


@dataclass(frozen=True, slots=True)
class _Image:
    """Rows that come (weight 1) or go (weight -1), with the stamps of their changes."""

    rows: pa.StructArray
    weight: int
    sequence: Int64s
    timestamp: Int64s


def _images(batch: ChangeBatch, op: npt.NDArray[np.int8]) -> list[_Image]:
    """The rows before the changes of `batch`, then those after them."""
    if batch.sequence_numbers is None:
        raise BugError("changes without sequence numbers", code="RPL-9020", table=str(batch.table))
    if batch.unchanged:
        raise _incomplete(batch, f"does not carry {', '.join(batch.unchanged)}")
    times = np.full(len(op), -1, np.int64) if batch.timestamps is None else batch.timestamps
    images: list[_Image] = []
    gone = np.flatnonzero(op != DMLOperation.INSERT)
    if len(gone):
        if batch.before is None or not batch.before_is_full:
            raise _incomplete(batch, "lacks the whole row before")
        images.append(_Image(_take(batch.before, gone), -1, batch.sequence_numbers[gone], times[gone]))
        if images[0].rows.null_count:
            raise _incomplete(batch, "lacks the row before")
    come = np.flatnonzero(op != DMLOperation.DELETE)
    if len(come):
        images.append(_Image(_take(batch.row, come), 1, batch.sequence_numbers[come], times[come]))
    return images


def _take(rows: pa.StructArray, chosen: Int64s) -> pa.StructArray:
    return rows if len(chosen) == len(rows) else rows.take(pa.array(chosen))


def _incomplete(batch: ChangeBatch, what: str) -> BugError:
    return BugError(f"a change of a table without a key {what}", code="RPL-9023", table=str(batch.table))
