"""The Parquet files of the archive: one row for each change, and for each row of a copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replicator_sdk.batch import ChangeBatch
from replicator_sdk.event import DMLOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from replicator_sdk.schema import TableSchema

_GROUP_ROWS: Final = 65_536
_FILE_BYTES: Final = 64 << 20
_LETTERS: Final = ("", "c", "u", "d")
_LETTERS_OF_COPIES: Final = ("", "r", "u", "d")
_READ: Final = ("c", "r", "u", "d")
_CODES: Final = (DMLOperation.INSERT, DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE)
SCHEMA_KEY: Final = b"replicator.schema"
"""The key under which a file's metadata has the table's schema, as `TableSchema.to_json` writes it."""


def file_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a file of the table."""
    flags = pa.struct([pa.field(name, pa.bool_()) for name in schema.names])
    return pa.schema(
        [
            pa.field("operation", pa.string()),
            pa.field("before", schema.struct),
            pa.field("after", schema.struct),
            pa.field("unchanged", flags),
            pa.field("before_is_whole", pa.bool_()),
            pa.field("position", pa.string()),
            pa.field("sequence", pa.int64()),
            pa.field("committed_at", pa.timestamp("us", tz="UTC")),
        ],
        metadata={SCHEMA_KEY: json.dumps(schema.to_json()).encode()},
    )


def rows_of_changes(batch: ChangeBatch, position: str) -> pa.RecordBatch:
    """The rows of numbered changes.

    Args:
        batch: The changes.
        position: Where the table is after all changes that the target got with them.
    """
    schema, rows = batch.schema, len(batch)
    letters = pa.array(_LETTERS_OF_COPIES if batch.is_snapshot else _LETTERS)
    is_delete = pc.equal(batch.op, int(DMLOperation.DELETE))
    fields = list(schema.struct)
    after = pa.StructArray.from_arrays(batch.row.flatten(), fields=fields, mask=pc.fill_null(is_delete, True))
    before = pa.nulls(rows, schema.struct) if batch.before is None else batch.before
    stamps = np.full(rows, -1, np.int64) if batch.timestamps is None else batch.timestamps
    arrays = [
        letters.take(batch.op.cast(pa.int32())),
        before,
        after,
        _flags(batch),
        pa.array(np.full(rows, batch.before_is_full)),
        pa.array([position]).take(pa.array(np.zeros(rows, np.int32))),
        pa.array(batch.sequence_numbers, pa.int64()),
        pa.array(stamps, pa.timestamp("us", tz="UTC"), mask=stamps < 0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=file_schema(schema))


def rows_of_copy(schema: TableSchema, rows: pa.RecordBatch, position: str) -> pa.RecordBatch:
    """The rows of a copy, which is of `position`."""
    form, count = file_schema(schema), rows.num_rows
    columns = [column.cast(kind.type) for column, kind in zip(rows.columns, schema.arrow, strict=True)]
    arrays = [
        pa.array(["r"]).take(pa.array(np.zeros(count, np.int32))),
        pa.nulls(count, schema.struct),
        pa.StructArray.from_arrays(columns, fields=list(schema.struct)),
        pa.nulls(count, form.field("unchanged").type),
        pa.array(np.zeros(count, np.bool_)),
        pa.array([position]).take(pa.array(np.zeros(count, np.int32))),
        pa.nulls(count, pa.int64()),
        pa.nulls(count, pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=form)


def changes_of_rows(schema: TableSchema, rows: pa.RecordBatch, ordinal: int, *, overlap: bool = False) -> ChangeBatch:
    """The inverse of `rows_of_changes`: changes that have no numbers yet.

    Args:
        schema: The table's, or a part of its columns: the others are left out.
        rows: Rows of a file of the table.
        ordinal: Of the first change.
        overlap: Whether the table may hold the effect of some of them already, as the manifest says.
    """
    before = rows.column("before")
    whole = rows.column("before_is_whole")
    flags = rows.column("unchanged")
    unchanged = {} if flags.null_count == len(flags) else _unchanged(schema, flags)
    return ChangeBatch(
        schema,
        pa.array(_CODES, pa.int8()).take(pc.index_in(rows.column("operation"), pa.array(_READ))),
        struct_of(schema, rows.column("after")),
        None if before.null_count == len(before) else struct_of(schema, before, pc.is_null(before)),
        np.arange(ordinal, ordinal + len(before), dtype=np.int64),
        unchanged,
        bool(pc.all(whole).as_py()),
        overlap,
    )


def struct_of(schema: TableSchema, rows: pa.StructArray, mask: pa.BooleanArray | None = None) -> pa.StructArray:
    """The columns of `schema` among those of `rows`; NULL where `mask` is true."""
    columns = [rows.field(column.name).cast(column.type.arrow) for column in schema.columns]
    return pa.StructArray.from_arrays(columns, fields=list(schema.struct), mask=mask)


def _unchanged(schema: TableSchema, flags: pa.StructArray) -> dict[str, pa.BooleanArray]:
    masks = {name: pc.and_(pc.is_valid(flags), pc.fill_null(flags.field(name), False)) for name in schema.names}
    return {name: mask for name, mask in masks.items() if pc.any(mask).as_py()}


def parquet(schema: TableSchema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """One Parquet file of the rows."""
    files = list(parquet_files(schema, batches, 1 << 62))
    return files[0] if files else _written(file_schema(schema), [])


def parquet_files(
    schema: TableSchema, batches: Iterable[pa.RecordBatch], most_bytes: int = _FILE_BYTES
) -> Iterator[bytes]:
    """Parquet files of the rows, of bounded size, since a transaction may be larger than memory."""
    form = file_schema(schema)
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.nbytes for b in held) >= most_bytes:
            yield _written(form, held)
            held = []
    if held:
        yield _written(form, held)


def _written(form: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, form, compression="zstd") as writer:
        writer.write_table(pa.Table.from_batches(batches, form), row_group_size=_GROUP_ROWS)
    return bytes(sink.getvalue())


def _flags(batch: ChangeBatch) -> pa.StructArray:
    """Which columns an UPDATE did not send; NULL where it sent all."""
    kind, rows = file_schema(batch.schema).field("unchanged").type, len(batch)
    if not batch.unchanged:
        return pa.nulls(rows, kind)
    none = pa.array(np.zeros(rows, np.bool_))
    masks = [batch.unchanged.get(name, none) for name in batch.schema.names]
    return pa.StructArray.from_arrays(masks, fields=list(kind))
