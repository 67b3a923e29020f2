"""The metadata columns of rows: which change wrote them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.event import DMLOperation
from replicator_sdk.row_versions import SEQUENCE
from replicator_sdk.row_versions.version_columns import Spans
from replicator_target_delta.config import BATCH_ID, IS_DELETED, OPERATION, SOURCE_TIMESTAMP, TOMBSTONE

Int64s = npt.NDArray[np.int64]
_LETTERS: Final = {DMLOperation.INSERT: "I", DMLOperation.UPDATE: "U", DMLOperation.DELETE: "D"}
_TIME: Final = pa.timestamp("us", "UTC")


class Stamper:
    """Makes the metadata columns a table has.

    Args:
        names: Metadata column → its name in the table, as `DeltaConfig.metadata_names`.
        batch: The batch's identity.
    """

    def __init__(self, names: dict[str, str], batch: str) -> None:
        self.names = names
        self._batch = batch

    def columns(
        self,
        sequence: Int64s,
        timestamp: Int64s,
        operation: pa.Array,
        *,
        deleted: bool = False,
        spans: Spans | None = None,
    ) -> dict[str, pa.Array]:
        """Metadata columns by their names in the table.

        Args:
            sequence: Sequence number of the change that wrote each row.
            timestamp: Its commit time, microseconds since 1970 UTC; -1 becomes NULL.
            operation: `I`, `U` or `D` for each row.
            deleted: Whether the rows are the last state of deleted ones; a tombstone key that is a text is left NULL.
            spans: When each row was valid; for a table of versions.
        """
        size = len(sequence)
        made = {
            SEQUENCE: lambda: pa.array(sequence, pa.int64()),
            BATCH_ID: lambda: pa.repeat(pa.scalar(self._batch), size),
            OPERATION: lambda: operation,
            IS_DELETED: lambda: pa.repeat(pa.scalar(deleted), size),
            TOMBSTONE: lambda: pa.nulls(size, pa.string()),
            SOURCE_TIMESTAMP: lambda: pa.array(timestamp, mask=timestamp < 0).cast(_TIME),
        }
        versions = {} if spans is None else spans.columns()
        return {name: versions[kind] if kind in versions else made[kind]() for kind, name in self.names.items()}

    def upserted(self, sequence: Int64s, timestamp: Int64s, fresh: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
        """For rows written: `I` where the key was certainly new, else `U`."""
        return self.columns(sequence, timestamp, pa.array(np.where(fresh, "I", "U"), pa.string()))

    def removed(self, sequence: Int64s, timestamp: Int64s) -> dict[str, pa.Array]:
        """For deleted rows that are kept."""
        return self.columns(sequence, timestamp, pa.repeat(pa.scalar("D"), len(sequence)), deleted=True)

    def appended(self, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8]) -> dict[str, pa.Array]:
        """For rows of which each is a change; which of them are tombstones is said apart (`Tombstones`)."""
        return self.columns(sequence, timestamp, _letters(codes))

    def versions(
        self, sequence: Int64s, timestamp: Int64s, codes: npt.NDArray[np.int8], spans: Spans
    ) -> dict[str, pa.Array]:
        """For rows of which each is a version that a change has opened."""
        return self.columns(sequence, timestamp, _letters(codes), spans=spans)

    def snapshot(self, size: int, number: int = 0, time: int = 0) -> dict[str, pa.Array]:
        """For rows a snapshot read: no commit time; as versions they are valid from `time` on, microseconds since 1970 UTC."""
        return self.columns(
            np.full(size, number, np.int64),
            np.full(size, -1, np.int64),
            pa.repeat(pa.scalar("I"), size),
            spans=Spans.current(np.full(size, time, np.int64)),
        )


def _letters(codes: npt.NDArray[np.int8]) -> pa.Array:
    known = pa.array([int(code) for code in _LETTERS], pa.int8())
    return pa.array(list(_LETTERS.values()), pa.string()).take(pc.index_in(pa.array(codes, pa.int8()), value_set=known))
