"""Leaves out the operations that a table's `dmlBlacklist` names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from replicator_sdk import ChangeBatch


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
    )
