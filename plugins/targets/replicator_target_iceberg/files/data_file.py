"""Data files: rows as Parquet with Iceberg's field identities, and what a commit needs to know of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator_sdk.batch import combined
from replicator_target_iceberg.files.storage import Storage, readable
from replicator_target_iceberg.schema.encoding import fit
from replicator_target_iceberg.schema.types import field_id

# All rows of a file in one group: Arrow writes no range of a group with a text of more than 4,096 bytes, and Iceberg's library then
# takes those of the file's other groups for the whole file's, by which readers leave the file out.
_ROW_GROUP: Final = 1 << 26
FULL: Final = "full-"
"""What the names of files begin with that are as large as was wanted, however small Parquet makes them: compaction leaves them as they are."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that no commit names yet; picklable.

    Attributes:
        location: Where it is.
        size: In bytes.
        rows: How many it holds.
        lowest: The lowest value of the column that files are chosen by; None when it is not known, or all are NULL.
        highest: The highest one.
    """

    location: str
    size: int
    rows: int
    lowest: Any = None
    highest: Any = None


def write_data_file(storage: Storage, rows: pa.Table, chosen_by: int | None = None, prefix: str = "") -> NewFile:
    """Write rows of a layout as one new file; durable on return.

    Args:
        storage: The table's files.
        rows: At least one.
        chosen_by: The identity of the column by which files are chosen; None for none.
        prefix: What the file's name begins with.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", row_group_size=_ROW_GROUP, store_schema=False)
    location, size = storage.write(f"data/{prefix}{uuid.uuid4()}.parquet", iter([sink.getvalue()]))
    lowest, highest = _range(rows, chosen_by)
    return NewFile(location, size, rows.num_rows, lowest, highest)


def has_range(kind: pa.DataType) -> bool:
    """Whether files are chosen by the lowest and highest value of a column of this type."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    )


def plain(values: pa.Array) -> pa.Array:
    """Values of a column that files are chosen by, as whole numbers or text."""
    if pa.types.is_string(values.type):
        return values
    return values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(values.type) else values.cast(pa.int64())


def _range(rows: pa.Table, chosen_by: int | None) -> tuple[Any, Any]:
    for place, column in enumerate(rows.schema):
        if chosen_by is not None and field_id(column) == chosen_by and has_range(column.type):
            found = pc.min_max(plain(combined(rows.column(place)))).as_py()
            return found["min"], found["max"]
    return None, None


class FileWriter:
    """Writes rows into files of about `target_bytes`; used by one thread, as a context manager.

    When the block ends by an error, what it wrote is deleted.
    """

    def __init__(self, storage: Storage, target_bytes: int, chosen_by: int | None = None) -> None:
        self._storage, self._target_bytes, self._chosen_by = storage, target_bytes, chosen_by
        self._held: list[pa.Table] = []
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
        if rows.num_rows:
            self._held.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= self._target_bytes:
                self._write(FULL)

    def finish(self) -> list[NewFile]:
        """Write what is held; returns all files."""
        if self._held:
            self._write()
        return self.made

    def _write(self, prefix: str = "") -> None:
        rows = pa.concat_tables(self._held)
        self._held, self._bytes = [], 0
        self.made.append(write_data_file(self._storage, rows, self._chosen_by, prefix))


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
        names = [there[key] for f in fields if (key := field_id(f)) in there]
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
