"""Leaves rows out that no reader sees, when files of a merge-on-read table are put together.

A row goes when the same files have a row of its key with a larger watermark, which stays. A tombstone goes when no other file
has a row of its key, and no older one can come: then a reader that finds no row of the key sees the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import combined
from replicator_sdk.merge_on_read.freshness import by_freshness, last_of_each
from replicator_sdk.merge_on_read.tombstones import Tombstones
from replicator_sdk.net_change import encode_rows as code_rows

Bools = npt.NDArray[np.bool_]
Elsewhere = Callable[[pa.Table], Bools]
"""Returns for each of some distinct keys whether a file beside those that are put together may have a row of it."""


@dataclass(frozen=True, slots=True)
class Folding:
    """How the rows of some files of a table are folded; picklable as its members are.

    Attributes:
        key: The names of the key's columns, as the files have them.
        watermarks: Those of the watermark keys.
        tombstones: The tombstone key.
        elsewhere: Says which keys other files may have; None where tombstones stay: where the source gives the watermarks, a row that is
            older than a tombstone may still come.
    """

    key: tuple[str, ...]
    watermarks: tuple[str, ...]
    tombstones: Tombstones
    elsewhere: Elsewhere | None

    def fold(self, rows: pa.Table) -> pa.Table:
        """Those of `rows`, all rows of the files, that stay, in their order."""
        keys = rows.select(list(self.key))
        codes, count = code_rows([combined(column) for column in keys.columns])
        deleted = self.tombstones.are(rows)
        watermarks = [combined(rows.column(name)) for name in self.watermarks]
        order = by_freshness(codes.astype(np.int64), watermarks, deleted)
        latest = np.empty(count, np.int64)
        newest = order[last_of_each(codes[order])]
        latest[codes[newest]] = newest
        marks, _ = code_rows(watermarks)  # of rows with equal watermarks the reader chooses
        stays: Bools = marks == marks[latest[codes]]
        gone = deleted[latest]
        if self.elsewhere is not None and gone.any():
            sought = np.flatnonzero(gone)
            traceless = np.zeros(count, np.bool_)
            traceless[sought] = ~self.elsewhere(keys.take(pa.array(latest[sought])).combine_chunks())
            stays &= ~traceless[codes]
        return rows if stays.all() else rows.filter(pa.array(stays))
