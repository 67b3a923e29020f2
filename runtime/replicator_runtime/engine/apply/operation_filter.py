"""Leaves out the operations that a table's `dmlBlacklist` names, and refuses an ALTER_TABLE that its `ddlBlacklist` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from replicator_sdk import (
    ChangeBatch,
    DDLEvent,
    LogItem,
    LogPartition,
    LogPartitionReader,
    Refusal,
    TableId,
    TableSchema,
)
from replicator_sdk.errors import SchemaDriftError


@dataclass(frozen=True, slots=True)
class FilteringReader:
    """A reader of a distributed log without the operations that are left out; picklable with the reader it wraps.

    Attributes:
        read: The source's.
        dropped: Table → codes of the operations to leave out.
    """

    read: LogPartitionReader
    dropped: Mapping[TableId, frozenset[int]]

    def __call__(self, partition: LogPartition, tables: Mapping[TableId, TableSchema]) -> Iterator[LogItem]:
        """What the source's reader gives, filtered."""
        for item in self.read(partition, tables):
            if isinstance(item, ChangeBatch) and item.table in self.dropped:
                kept = keep_operations(item, set(self.dropped[item.table]))
                if kept is not None:
                    yield kept
            else:
                yield item


def keep_operations(batch: ChangeBatch, dropped: set[int]) -> ChangeBatch | None:
    """The batch without the operations in `dropped`; None when nothing is left. Numbers stay as they are."""
    keep = ~np.isin(batch.op.to_numpy(zero_copy_only=False), list(dropped))
    if keep.all():
        return batch
    if not keep.any():
        return None
    mask = pa.array(keep)
    return replace(
        batch,
        op=batch.op.filter(mask),
        row=batch.row.filter(mask),
        before=None if batch.before is None else batch.before.filter(mask),
        ordinals=batch.ordinals[keep],
        unchanged={name: column.filter(mask) for name, column in batch.unchanged.items()},
        sequence_numbers=None if batch.sequence_numbers is None else batch.sequence_numbers[keep],
        timestamps=None if batch.timestamps is None else batch.timestamps[keep],
        refused=_kept(batch, mask),
    )


def _kept(batch: ChangeBatch, mask: pa.BooleanArray) -> dict[str, Refusal]:
    """What is refused of the rows under `mask`."""
    left = {name: Refusal(r.mask.filter(mask), r.code, r.what) for name, r in batch.refused.items()}
    return {name: refusal for name, refusal in left.items() if refusal.mask.true_count}


def blacklisted_alter(event: DDLEvent) -> SchemaDriftError:
    """The error for an ALTER_TABLE on the `ddlBlacklist`: no later change fits the target's table."""
    return SchemaDriftError(
        "the table was altered at the source and ALTER_TABLE is on the ddlBlacklist",
        code="RPL-6001",
        hint="take ALTER_TABLE off the ddlBlacklist to let the change through, then start again",
        table=str(event.table),
        position=str(event.position),
    )
