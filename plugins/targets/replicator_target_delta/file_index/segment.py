"""Some thousand files of a table, in columns that never change."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_target_delta.file_index.actions import DETAILS, VECTOR, levels_of
from replicator_target_delta.file_index.bounds import ColumnBounds, column_bounds, row_counts
from replicator_target_delta.file_index.details import Details

Int64s = npt.NDArray[np.int64]
_COUNTED_AT_ONCE: Final = 256


class Segment:
    """Files in a fixed order. Safe from any thread.

    A copy that is sent to an executor has the bounds that were asked for here, and no details.

    Args:
        columns: As `to_columns` makes them; none of them empty.
        rows: Rows in each file, where that is known.

    Attributes:
        paths: As the log has them.
        sizes: In bytes.
        vectors: Descriptors of deletion vectors, NULL for none; None when no file has one.
        levels: How often the rows of each file were put in order with those of others (`clustering`).
    """

    def __init__(self, columns: pa.RecordBatch, rows: Int64s | None = None) -> None:
        self.paths: pa.StringArray = columns["path"]
        self.sizes: Int64s = columns["size"].to_numpy()
        vectors: pa.StructArray = columns["deletionVector"]
        self.vectors = None if vectors.null_count == len(vectors) else vectors
        self.levels = levels_of(columns["tags"])
        self._details: Details | None = Details(columns.select(DETAILS.names))
        self._rows = rows
        self._bounds: dict[str, ColumnBounds] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_details": None, "_rows": self.rows}

    @property
    def rows(self) -> Int64s:
        """Rows in each file, gone ones included; -1 unknown."""
        if self._rows is None:
            self._rows = row_counts(self._here.column("stats"))
        return self._rows

    @property
    def rows_if_known(self) -> Int64s | None:
        """The same without reading the statistics of many files for it: None until something else has needed them."""
        return self.rows if len(self) <= _COUNTED_AT_ONCE else self._rows

    @property
    def gone(self) -> Int64s:
        """How many rows of each file are gone."""
        if self.vectors is None:
            return np.zeros(len(self), np.int64)
        counts: Int64s = pc.fill_null(pc.struct_field(self.vectors, "cardinality"), 0).to_numpy()
        return counts

    def bounds(self, column: pa.Field) -> ColumnBounds | None:
        """What is known of a column, by its physical name; None on an executor where it was not asked for before."""
        found = self._bounds.get(column.name)
        if found is None and self._details is not None:
            found, self._rows = column_bounds(self._details.column("stats"), column)
            self._bounds = {**self._bounds, column.name: found}
        return found

    def keep_bounds(self, names: set[str]) -> None:
        """Forget the bounds of all other columns."""
        if not names.issuperset(self._bounds):
            self._bounds = {name: found for name, found in self._bounds.items() if name in names}

    def actions(self, rows: Int64s) -> pa.RecordBatch:
        """The actions of some files, as `to_columns` makes them."""
        chosen = pa.array(rows)
        vectors = pa.nulls(len(rows), VECTOR) if self.vectors is None else self.vectors.take(chosen)
        columns = [self.paths.take(chosen), pa.array(self.sizes[rows]), vectors]
        details = self._here.take(rows)
        return pa.RecordBatch.from_arrays(
            [*columns, *details.columns], names=["path", "size", "deletionVector", *DETAILS.names]
        )

    @property
    def _here(self) -> Details:
        assert self._details is not None, "an executor has no details of the files"
        return self._details
