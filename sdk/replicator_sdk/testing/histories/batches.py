"""Plain changes ↔ the columns they travel in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import BatchIdentity, ChangeBatch, TableChanges
from replicator_sdk.event import DMLOperation
from replicator_sdk.schema import TableSchema
from replicator_sdk.testing.histories.reference import RowChange


def to_batch(
    changes: Sequence[RowChange], ordinals: Sequence[int], sequence_before: int | None = None, timestamp: int = -1
) -> ChangeBatch:
    """Changes of one table under one schema as one batch.

    Args:
        changes: At least one.
        ordinals: Their ordinals.
        sequence_before: The sequence number before ordinal 0; None leaves the batch without numbers.
        timestamp: Commit time of all of them, when numbered.
    """
    schema = changes[0].schema
    befores = [c.before for c in changes]
    unchanged = {
        name: pa.array([name in c.unchanged for c in changes], pa.bool_())
        for name in schema.names
        if any(name in c.unchanged for c in changes)
    }
    numbered = None if sequence_before is None else sequence_before + 1 + np.asarray(ordinals, np.int64)
    return ChangeBatch(
        schema,
        pa.array([int(c.operation) for c in changes], pa.int8()),
        pa.array([_complete(schema, c.row) for c in changes], schema.struct),
        pa.array([None if b is None else _complete(schema, b) for b in befores], schema.struct)
        if any(b is not None for b in befores)
        else None,
        np.asarray(ordinals, np.int64),
        unchanged,
        before_is_full=all(c.before_is_full for c in changes if c.before is not None),
        sequence_numbers=numbered,
        timestamps=None if numbered is None else np.full(len(changes), timestamp, np.int64),
    )


def from_batch(batch: ChangeBatch) -> list[RowChange]:
    """The changes in a batch, in order."""
    rows, befores = batch.row.to_pylist(), [None] * len(batch) if batch.before is None else batch.before.to_pylist()
    masks = {name: mask.to_pylist() for name, mask in batch.unchanged.items()}
    changes = []
    for i, code in enumerate(batch.op.to_pylist()):
        operation = DMLOperation(code)
        unchanged = frozenset(name for name, mask in masks.items() if mask[i])
        row = {} if operation is DMLOperation.DELETE else {k: v for k, v in rows[i].items() if k not in unchanged}
        changes.append(RowChange(batch.schema, operation, row, befores[i], unchanged, batch.before_is_full))
    return changes


def to_table_changes(
    batches: Sequence[ChangeBatch],
    identity: BatchIdentity,
    *,
    overlap: bool = False,
    drops_lost_updates: bool | None = None,
    unordered: bool = False,
) -> TableChanges:
    """Numbered batches of one table and schema as what a target applies at once.

    `drops_lost_updates` is as `overlap` where it is left out: the overlap is one with the runtime's own snapshot then.
    """
    return TableChanges(
        batches[0].schema,
        identity,
        batches,
        rows=sum(len(b) for b in batches),
        nbytes=sum(b.nbytes for b in batches),
        overlap=overlap,
        drops_lost_updates=overlap if drops_lost_updates is None else drops_lost_updates,
        inserts_only=all(code == DMLOperation.INSERT for b in batches for code in b.op.to_pylist()),
        source_timestamp=max(int(b.timestamps.max()) if b.timestamps is not None else -1 for b in batches),
        unordered=unordered,
    )


def _complete(schema: TableSchema, row: Any) -> dict[str, Any]:
    return {name: row.get(name) for name in schema.names}
