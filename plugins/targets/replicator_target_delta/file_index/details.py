"""The details of many actions, in blocks that are loaded when needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_target_delta.file_index.action_store import StoredBatch

Int64s = npt.NDArray[np.int64]
_BLOCK: Final = 64
_PIECE_BYTES: Final = 4 << 20
_STORED_FROM: Final = 32  # fewer are kept as they are


class Details:
    """Rows that never change. Safe from any thread.

    Args:
        rows: What to keep.
    """

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._kept = rows if len(rows) < _STORED_FROM else None
        starts = range(0) if self._kept is not None else range(0, len(rows), _BLOCK)
        self._blocks = [StoredBatch(rows.slice(start, _BLOCK)) for start in starts]

    def column(self, name: str) -> Iterator[pa.Array]:
        """One column of all rows, in pieces of some megabytes."""
        if self._kept is not None:
            yield self._kept[name]
            return
        held: list[pa.Array] = []
        for block in self._blocks:
            held.append(block.load()[name])
            if sum(piece.nbytes for piece in held) >= _PIECE_BYTES:
                yield pa.concat_arrays(held)
                held = []
        if held:
            yield pa.concat_arrays(held)

    def take(self, rows: Int64s) -> pa.RecordBatch:
        """Some rows, in the order of `rows`."""
        if self._kept is not None:
            return self._kept.take(pa.array(rows))
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        parts = [
            self._blocks[block].load().take(pa.array(ordered[ordered // _BLOCK == block] - block * _BLOCK))
            for block in np.unique(ordered // _BLOCK).tolist()
        ]
        return pa.concat_batches(parts).take(pa.array(np.argsort(order)))
