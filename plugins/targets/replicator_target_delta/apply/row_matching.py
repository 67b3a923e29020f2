"""Finds the rows of data files that hold given keys: the part of an apply that reads the table.

Works on groups of files, so that many small files cost one look-up and not one each. A group is a value that can be
sent to an executor; rows already gone are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator_sdk.batch import combined
from replicator_sdk.net_change import encode_rows
from replicator_target_delta.files.deletion_vector import read_deletion_vector
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.schema.encoding import conform

Int64s = npt.NDArray[np.int64]
_NOWHERE: Final = -1
_HASHED_KEYS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for; picklable.

    Attributes:
        keys: Distinct keys under physical names in Delta's types.
        wanted: For each key whether the found row's `fetch` columns are wanted; None for no key.
        fetch: Physical fields to bring along for wanted keys.
        only_null: Only rows that have NULL in this physical field match; None for all rows.
    """

    keys: pa.Table
    wanted: npt.NDArray[np.bool_] | None = None
    fetch: tuple[pa.Field, ...] = ()
    only_null: pa.Field | None = None


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Some files of one table, as their `add` actions name them; picklable.

    Attributes:
        root: The table's folder.
        locations: File names.
        vectors: Their deletion vectors' descriptors.
    """

    root: str
    locations: tuple[str, ...]
    vectors: tuple[dict[str, Any] | None, ...]


@dataclass(frozen=True, slots=True)
class FileMatch:
    """What was found in one file.

    Attributes:
        index: Which file of the group.
        rows: Total rows in the file.
        positions: Ascending row indexes that hold a sought key and are not gone.
        keys: For each of them the index of the key.
        fetched: For each row whose key is wanted, in `positions` order, the fetched columns.
    """

    index: int
    rows: int
    positions: Int64s
    keys: npt.NDArray[np.int32]
    fetched: pa.Table | None


def match_group(group: FileGroup, sought: Sought) -> list[FileMatch]:
    """The matches in each file of `group`; files without any are left out."""
    storage = Storage(group.root)
    opened = [_OpenFile(storage, location) for location in group.locations]
    try:
        read = [file.read_keys(sought.keys) for file in opened]
        columns = [pa.concat_arrays([arrays[i] for _, arrays in read]) for i in range(sought.keys.num_columns)]
        found = look_up(columns, sought.keys)
        edges = np.cumsum([0, *(len(positions) for positions, _ in read)])
        matches = []
        for index, (positions, _) in enumerate(read):
            here = found[edges[index] : edges[index + 1]]
            hits = np.flatnonzero(here != _NOWHERE)
            match = _without_gone(storage, group.vectors[index], positions[hits], here[hits])
            if match is not None and sought.only_null is not None:
                match = _where_null(opened[index], match, sought.only_null)
            if match is not None:
                matches.append(_fetch(index, opened[index], match, sought))
        return matches
    finally:
        for file in opened:
            file.close()


def _without_gone(
    storage: Storage, vector: dict[str, Any] | None, positions: Int64s, keys: npt.NDArray[np.int32]
) -> tuple[Int64s, npt.NDArray[np.int32]] | None:
    if vector is not None and len(positions):
        gone = np.array(read_deletion_vector(storage, vector).to_array(), np.int64)
        kept = np.isin(positions, gone, assume_unique=True, invert=True)
        positions, keys = positions[kept], keys[kept]
    return (positions, keys) if len(positions) else None


def _where_null(
    file: _OpenFile, match: tuple[Int64s, npt.NDArray[np.int32]], field: pa.Field
) -> tuple[Int64s, npt.NDArray[np.int32]] | None:
    positions, keys = match
    kept = combined(file.read_rows(positions, [field]).column(0)).is_null().to_numpy(zero_copy_only=False)
    return (positions[kept], keys[kept]) if kept.any() else None


def look_up(columns: Sequence[pa.Array], keys: pa.Table) -> npt.NDArray[np.int32]:
    """For each row the index of its key among `keys`, or -1; NULL equals NULL, NaN equals NaN."""
    if len(columns) == 1 and not pa.types.is_nested(columns[0].type) and not pa.types.is_floating(columns[0].type):
        if searches_sorted(keys):
            return _search_sorted(columns[0], combined(keys.column(0)))
        found = pc.index_in(columns[0], value_set=combined(keys.column(0)))
        indexes: npt.NDArray[np.int32] = pc.fill_null(found, _NOWHERE).to_numpy(zero_copy_only=False)
        return indexes
    size = keys.num_rows
    both = [pa.concat_arrays([combined(k), v]) for k, v in zip(keys.columns, columns, strict=True)]
    codes, count = encode_rows(both)
    index_of = np.full(count, _NOWHERE, np.int32)
    index_of[codes[:size]] = np.arange(size, dtype=np.int32)
    return index_of[codes[size:]]


def searches_sorted(keys: pa.Table) -> bool:
    """Whether `keys` are best handed over in ascending order: very many single whole numbers, none of them NULL."""
    only = keys.column(0)
    return bool(
        keys.num_columns == 1
        and keys.num_rows > _HASHED_KEYS
        and pa.types.is_integer(only.type)
        and only.null_count == 0
    )


def _search_sorted(column: pa.Array, keys: pa.Array) -> npt.NDArray[np.int32]:
    """The same for very many whole numbers; a hash table of them takes a hundred bytes a key, in each thread."""
    values = pc.fill_null(column, 0).to_numpy()
    sought = keys.to_numpy()
    order = None if bool((sought[1:] > sought[:-1]).all()) else np.argsort(sought).astype(np.int32)
    ordered = sought if order is None else sought[order]
    place = np.searchsorted(ordered, values).astype(np.int32)
    place[place == len(ordered)] = 0
    there = (ordered[place] == values) & pc.is_valid(column).to_numpy(zero_copy_only=False)
    return np.where(there, place if order is None else order[place], np.int32(_NOWHERE))


def _fetch(index: int, file: _OpenFile, match: tuple[Int64s, npt.NDArray[np.int32]], sought: Sought) -> FileMatch:
    positions, keys = match
    fetched = None
    if sought.wanted is not None and sought.fetch:
        rows = positions[sought.wanted[keys]]
        if len(rows):
            fetched = file.read_rows(rows, sought.fetch)
    return FileMatch(index, file.rows, positions, keys, fetched)


class _OpenFile:
    """One Parquet file open for reading."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._file = pq.ParquetFile(storage.open_input(location), coerce_int96_timestamp_unit="us")
        self._groups = [self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)]
        self._names = set(self._file.schema_arrow.names)
        self._starts = np.cumsum([0, *self._groups], dtype=np.int64)
        self.rows = int(self._starts[-1])

    def close(self) -> None:
        """Release the file."""
        self._file.close(force=True)

    def read_keys(self, keys: pa.Table) -> tuple[Int64s, list[pa.Array]]:
        """Row indexes and key columns of the row groups that may hold one of `keys`."""
        chosen = self._row_groups(keys)
        columns = self._read(chosen, list(keys.schema))
        positions = [np.arange(self._starts[g], self._starts[g + 1]) for g in chosen]
        return (np.concatenate(positions) if positions else np.empty(0, np.int64)), columns

    def read_rows(self, rows: Int64s, fields: Sequence[pa.Field]) -> pa.Table:
        """Some columns of the rows with the ascending indexes `rows`."""
        groups = np.searchsorted(self._starts, rows, "right") - 1
        parts = []
        for group in np.unique(groups).tolist():
            inside = pa.array(rows[groups == group] - self._starts[group])
            parts.append([column.take(inside) for column in self._read([group], fields)])
        schema = pa.schema(list(fields))
        return pa.concat_tables([pa.Table.from_arrays(part, schema=schema) for part in parts])

    def read_all(self, fields: Sequence[pa.Field]) -> Iterator[pa.Table]:
        """All rows, gone ones included, row group by row group."""
        for group in range(len(self._groups)):
            yield pa.Table.from_arrays(self._read([group], fields), schema=pa.schema(list(fields)))

    def _read(self, groups: Iterable[int], fields: Sequence[pa.Field]) -> list[pa.Array]:
        """Columns of some row groups in the fields' types; a column younger than the file is NULL."""
        chosen = list(groups)
        here = [f.name for f in fields if f.name in self._names]
        table = self._file.read_row_groups(chosen, columns=here) if here and chosen else None
        count = sum(self._groups[g] for g in chosen)
        return [
            pa.nulls(count, f.type)
            if table is None or f.name not in self._names
            else conform(combined(table.column(f.name)), f.type)
            for f in fields
        ]

    def _row_groups(self, keys: pa.Table) -> list[int]:
        """Row groups whose own statistics do not rule out the range of the first key column."""
        everything = list(range(len(self._groups)))
        name, values = keys.column_names[0], keys.column(0)
        if not pa.types.is_integer(values.type) or values.null_count or name not in self._names:
            return everything
        bounds = pc.min_max(values).as_py()
        place = self._file.schema_arrow.get_field_index(name)
        column = (
            [self._file.schema.column(i).path for i in range(len(self._file.schema))].index(name) if place >= 0 else 0
        )
        kept = []
        for group in everything:
            found = self._file.metadata.row_group(group).column(column).statistics
            if found is None or not found.has_min_max or (found.max >= bounds["min"] and found.min <= bounds["max"]):
                kept.append(group)
        return kept


def live_where_null(
    storage: Storage, location: str, vector: dict[str, Any] | None, field: pa.Field
) -> tuple[Int64s, int]:
    """The ascending indexes of the rows of one data file that are not gone and have NULL in `field`, and how many rows the file has."""
    file = _OpenFile(storage, location)
    try:
        parts = [combined(rows.column(0)).is_null() for rows in file.read_all([field])]
    finally:
        file.close()
    null = np.concatenate([np.empty(0, np.bool_), *(part.to_numpy(zero_copy_only=False) for part in parts)])
    null[np.array(read_deletion_vector(storage, vector).to_array(), np.int64)] = False
    return np.flatnonzero(null).astype(np.int64), len(null)


def rows_at(storage: Storage, location: str, positions: Int64s, fields: Sequence[pa.Field]) -> pa.Table:
    """The rows of one data file at some ascending indexes, at least one."""
    file = _OpenFile(storage, location)
    try:
        return file.read_rows(positions, fields)
    finally:
        file.close()


def live_rows(
    root: str, location: str, vector: dict[str, Any] | None, fields: Sequence[pa.Field]
) -> Iterator[pa.Table]:
    """The rows of one data file of the table at `root` that are not gone, row group by row group."""
    storage = Storage(root)
    gone = np.array(read_deletion_vector(storage, vector).to_array(), np.int64)
    file = _OpenFile(storage, location)
    start = 0
    try:
        for rows in file.read_all(fields):
            live = np.ones(rows.num_rows, np.bool_)
            live[gone[(gone >= start) & (gone < start + rows.num_rows)] - start] = False
            start += rows.num_rows
            yield rows if live.all() else rows.filter(pa.array(live))
    finally:
        file.close()
