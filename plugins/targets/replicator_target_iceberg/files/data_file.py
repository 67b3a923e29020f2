"""Data files: rows as Parquet with Iceberg's field identities, and what a commit needs to know of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator_sdk.batch import combined
from replicator_target_iceberg.arrangement.partitioning import WHOLE_TABLE, Partition
from replicator_target_iceberg.files.form import FileForm
from replicator_target_iceberg.files.storage import Storage, readable
from replicator_target_iceberg.schema.encoding import fit
from replicator_target_iceberg.schema.types import field_id

# All rows of a file in one group: Arrow writes no range of a group with a text of more than 4,096 bytes, and Iceberg's library then
# takes those of the file's other groups for the whole file's, by which readers leave the file out.
_ROW_GROUP: Final = 1 << 26
_PARTITIONS_LARGER: Final = 2  # than one file: what rows that wait in several partitions take together
FULL: Final = "full-"
"""What the names of files begin with that are as large as was wanted, however small Parquet makes them: compaction leaves them as they are."""

_DIGITS: Final = 18  # of decimals that a whole number of eight bytes holds
PAST: Final = "past-"
"""What the names of files begin with that have ended versions only (mode `scd2`)."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that no commit names yet; picklable.

    Attributes:
        location: Where it is.
        size: In bytes.
        rows: How many it holds.
        lowest: The lowest value of the column that files are chosen by; None when it is not known, or all are NULL.
        highest: The highest one.
        partition: The partition that all its rows are in.
        sorted_by: The number of the sort order that its rows have; 0 for none.
    """

    location: str
    size: int
    rows: int
    lowest: Any = None
    highest: Any = None
    partition: Partition = WHOLE_TABLE
    sorted_by: int = 0


def write_data_files(
    storage: Storage, rows: pa.Table, form: FileForm, chosen_by: int | None = None, *, begin: str = ""
) -> list[NewFile]:
    """Write rows of a layout as one new file for each partition; durable on return.

    Args:
        storage: The table's files.
        rows: At least one.
        form: How they are written.
        chosen_by: The identity of the column by which files are chosen; None for none.
        begin: As for `FileWriter`.
    """
    with FileWriter(storage, rows.nbytes + 1, form, chosen_by, begin=begin) as writer:
        writer.add(rows)
        return writer.finish()


def _written(
    storage: Storage, rows: pa.Table, form: FileForm, chosen_by: int | None, partition: Partition, prefix: str
) -> NewFile:
    """One new file of rows of one partition."""
    rows = form.sorting.sorted(rows)
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression=form.codec,
        compression_level=form.level,
        row_group_size=_ROW_GROUP,
        store_schema=False,
    )
    location, size = storage.write(f"data/{prefix}{uuid.uuid4()}.parquet", iter([sink.getvalue()]))
    lowest, highest = _range(rows, chosen_by)
    return NewFile(location, size, rows.num_rows, lowest, highest, partition, form.sorting.number)


def has_range(kind: pa.DataType) -> bool:
    """Whether files are chosen by the lowest and highest value of a column of this type."""
    if pa.types.is_decimal128(kind):
        return bool(kind.precision <= _DIGITS)
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    )


def plain(values: pa.Array) -> pa.Array:
    """Values of a column that files are chosen by, as whole numbers or text."""
    if pa.types.is_string(values.type):
        return values
    if pa.types.is_decimal128(
        values.type
    ):  # without its scale, which is that of all values: the lower one of its two words
        words = np.frombuffer(values.buffers()[1], np.int64) if len(values) else np.empty(0, np.int64)
        low = words[2 * values.offset : 2 * (values.offset + len(values)) : 2]
        return pa.array(low, mask=pc.is_null(values).to_numpy(zero_copy_only=False))
    return values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(values.type) else values.cast(pa.int64())


def _range(rows: pa.Table, chosen_by: int | None) -> tuple[Any, Any]:
    for place, column in enumerate(rows.schema):
        if chosen_by is not None and field_id(column) == chosen_by and has_range(column.type):
            found = pc.min_max(plain(combined(rows.column(place)))).as_py()
            return found["min"], found["max"]
    return None, None


class _Waiting:
    """Rows of one partition that wait to be written."""

    def __init__(self) -> None:
        self.parts: list[pa.Table] = []
        self.bytes = 0


class FileWriter:
    """Writes rows into files of about `target_bytes`, each of one partition; used by one thread, as a context manager.

    When the block ends by an error, what it wrote is deleted. Rows of many partitions that together take twice `target_bytes` are
    written in smaller files.

    Args:
        storage: The table's files.
        target_bytes: How large files are, in memory.
        form: How they are written.
        chosen_by: The identity of the column by which files are chosen; None for none.
        begin: What the names of all files begin with, before `FULL`.
        level: What comes after it.
    """

    def __init__(
        self,
        storage: Storage,
        target_bytes: int,
        form: FileForm,
        chosen_by: int | None = None,
        *,
        begin: str = "",
        level: str = "",
    ) -> None:
        self._storage, self._target_bytes, self._form, self._chosen_by = storage, target_bytes, form, chosen_by
        self._begin, self._level = begin, level
        self._waiting: dict[Partition, _Waiting] = {}
        self._bytes = 0
        self.made: list[NewFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._storage.delete(file.location for file in self.made)

    def add(self, rows: pa.Table) -> None:
        """Take rows of the layout."""
        if not rows.num_rows:
            return
        for partition, part in self._form.partitioning.split(rows):
            waiting = self._waiting.setdefault(partition, _Waiting())
            waiting.parts.append(part)
            waiting.bytes += part.nbytes
            self._bytes += part.nbytes
            if waiting.bytes >= self._target_bytes:
                self._write(partition, FULL)
        while self._bytes >= _PARTITIONS_LARGER * self._target_bytes:
            self._write(max(self._waiting, key=lambda one: self._waiting[one].bytes))

    def finish(self) -> list[NewFile]:
        """Write what is held; returns all files."""
        for partition in list(self._waiting):
            self._write(partition)
        return self.made

    def _write(self, partition: Partition, prefix: str = "") -> None:
        waiting = self._waiting.pop(partition)
        self._bytes -= waiting.bytes
        rows = pa.concat_tables(waiting.parts)
        name = self._begin + prefix + self._level
        self.made.append(_written(self._storage, rows, self._form, self._chosen_by, partition, name))


def read_rows(storage: Storage, location: str, fields: Sequence[pa.Field]) -> Iterator[pa.Table]:
    """All rows of a data file, deleted ones too, a row group at a time: the columns of `fields`, by their identities.

    A column that the file does not have is NULL. One that had a narrower type when the file was written has the present one.
    """
    with storage.open_input(location) as source:
        with readable(location):
            file = pq.ParquetFile(source)
        there = {field_id(column): column.name for column in file.schema_arrow}
        if None in there:  # written by a program that gives no identities
            there = {field_id(f): f.name for f in fields if f.name in file.schema_arrow.names}
        names = list(dict.fromkeys(there[key] for f in fields if (key := field_id(f)) in there))
        for group in range(file.num_row_groups):
            with readable(location):
                rows = file.read_row_group(group, columns=names) if names else None
            size = file.metadata.row_group(group).num_rows
            yield pa.Table.from_arrays(
                [_column(rows, there.get(field_id(f)), f, size) for f in fields],
                schema=pa.schema([f.with_nullable(True) for f in fields]),
            )


def _column(rows: pa.Table | None, name: str | None, wanted: pa.Field, size: int) -> pa.Array:
    if rows is None or name is None:
        return pa.nulls(size, wanted.type)
    place = rows.schema.get_field_index(name)
    return fit(combined(rows.column(place)), wanted.type, by_id=True)
