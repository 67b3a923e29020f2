"""Rows that lack values which only the table has: kept aside until the table's old rows are found."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replicator_sdk.batch import combined

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_IN_MEMORY: Final = 64 << 20


@dataclass(slots=True)
class IncompleteRows:
    """Rows of a batch waiting for old values; used by one thread, closed after use.

    Past 64 MB the rows are in a temporary file and are mapped, not loaded.
    """

    schema: pa.Schema
    _rows: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0
    _spill: tempfile.TemporaryDirectory[str] | None = None
    _sink: pa.ipc.RecordBatchFileWriter | None = None
    _masks: dict[str, list[tuple[int, Bools]]] = field(default_factory=dict)
    _origins: list[pa.Table] = field(default_factory=list)
    _sequence: list[Int64s] = field(default_factory=list)
    _deletes: list[Bools] = field(default_factory=list)
    size: int = 0

    def add(
        self, rows: pa.Table, masks: dict[str, Bools], origin: pa.Table, sequence: Int64s, *, deletes: bool
    ) -> None:
        """Keep rows.

        Args:
            rows: Of the table's physical schema, missing values NULL.
            masks: Physical column → which rows lack it.
            origin: Key under which the table holds each row now.
            sequence: For messages.
            deletes: Whether the rows are kept images of deleted ones.
        """
        for name, mask in masks.items():
            self._masks.setdefault(name, []).append((self.size, mask))
        self._origins.append(origin)
        self._sequence.append(sequence)
        self._deletes.append(np.full(rows.num_rows, deletes))
        self.size += rows.num_rows
        self._keep(rows)

    def _keep(self, rows: pa.Table) -> None:
        self._rows.append(rows)
        self._bytes += rows.nbytes
        if self._bytes > _IN_MEMORY:
            if self._sink is None:
                self._spill = tempfile.TemporaryDirectory(prefix="replicator-rows-")
                self._sink = pa.ipc.new_file(str(Path(self._spill.name) / "rows"), self.schema)
            for part in self._rows:
                self._sink.write_table(part)
            self._rows, self._bytes = [], 0

    def seal(self) -> SealedRows:
        """All rows, to be completed in any order. Nothing may be added afterwards."""
        if self._sink is not None:
            assert self._spill is not None
            for part in self._rows:
                self._sink.write_table(part)
            self._sink.close()
            rows = pa.ipc.open_file(pa.memory_map(str(Path(self._spill.name) / "rows"))).read_all()
        else:
            rows = pa.concat_tables(self._rows)
        masks = {}
        for name, pieces in self._masks.items():
            masks[name] = np.zeros(self.size, np.bool_)
            for start, mask in pieces:
                masks[name][start : start + len(mask)] = mask
        return SealedRows(
            rows, masks, pa.concat_tables(self._origins), np.concatenate(self._sequence), np.concatenate(self._deletes)
        )

    def close(self) -> None:
        """Delete the temporary file."""
        self._rows = []
        if self._spill is not None:
            self._spill.cleanup()


@dataclass(frozen=True, slots=True)
class SealedRows:
    """Rows ready to be completed.

    Attributes:
        rows: Physical rows, missing values NULL.
        masks: Physical column → which rows lack it.
        origin: Key under which the table holds each row.
        sequence: Sequence numbers.
        deletes: Which rows are kept images of deleted ones.
    """

    rows: pa.Table
    masks: dict[str, Bools]
    origin: pa.Table
    sequence: Int64s
    deletes: Bools

    @property
    def fetch(self) -> tuple[pa.Field, ...]:
        """The columns that at least one row lacks."""
        return tuple(self.rows.schema.field(name) for name in self.rows.column_names if name in self.masks)

    def complete(self, chosen: Int64s, old: pa.Table) -> pa.Table:
        """The rows at `chosen` with what they lack taken from `old`, row for row."""
        rows = self.rows.take(pa.array(chosen))
        columns = []
        own_place = np.arange(len(chosen))
        for name, values in zip(rows.column_names, rows.columns, strict=True):
            if name in self.masks:
                place = np.where(self.masks[name][chosen], own_place + len(chosen), own_place)
                both = pa.concat_arrays([combined(values), combined(old.column(name))])
                columns.append(both.take(pa.array(place)))
            else:
                columns.append(combined(values))
        return pa.Table.from_arrays(columns, schema=rows.schema)
