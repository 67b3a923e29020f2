"""Which watermarks rows had before they moved to another key, as far as the log says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import TableChanges, combined

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FormerWatermarks:
    """Immutable.

    Attributes:
        rows: For each move, in the order of the changes, its watermark columns before; without meaning where they are not known.
        known: For each move whether the log has them.
    """

    rows: pa.Table
    known: Bools

    @classmethod
    def of(cls, changes: TableChanges, moved: Int64s, names: Sequence[str]) -> FormerWatermarks:
        """Read them from the log; it is not read when there are none.

        Args:
            changes: The changes.
            moved: Ascending: which of them move a row.
            names: The watermark keys that are columns of the source.
        """
        known = np.zeros(len(moved), np.bool_)
        parts = [pa.schema([pa.field(name, changes.schema[name].type.arrow) for name in names]).empty_table()]
        start = 0
        for batch in changes.batches() if names and len(moved) else ():
            low, high = np.searchsorted(moved, [start, start + len(batch)])
            here, start = pa.array(moved[low:high] - start), start + len(batch)
            if low == high:
                continue
            is_whole = batch.before is not None and batch.before_is_full
            known[low:high] = is_whole
            rows = batch.before if batch.before is not None and is_whole else batch.row
            parts.append(pa.table([rows.field(name).take(here) for name in names], schema=parts[0].schema))
        return cls(pa.concat_tables(parts), known)

    def of_moves(self, moves: Int64s) -> dict[str, pa.Array]:
        """The watermarks before some moves."""
        taken = pa.array(moves)
        return {name: combined(self.rows.column(name)).take(taken) for name in self.rows.column_names}
