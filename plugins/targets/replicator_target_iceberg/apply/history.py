"""Every change as a row of its own: what the mode `append` writes."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import ChangeBatch, TableChanges
from replicator_sdk.errors import BugError
from replicator_sdk.event import DMLOperation
from replicator_sdk.failpoint import failpoint
from replicator_target_iceberg.apply.keyed import Place
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.files.data_file import FileWriter
from replicator_target_iceberg.schema.encoding import encode_rows
from replicator_target_iceberg.schema.table_form import BEFORE
from replicator_target_iceberg.schema.types import Layout

_LETTERS: Final = {DMLOperation.INSERT: "I", DMLOperation.UPDATE: "U", DMLOperation.DELETE: "D"}
SNAPSHOT: Final = "S"
TRUNCATE: Final = "T"
Bools = npt.NDArray[np.bool_]


def append_changes(place: Place, changes: TableChanges) -> RowChanges:
    """Write a row for each change; in effect once the returned changes are committed."""
    made = RowChanges()
    with FileWriter(place.storage, place.target_bytes, place.form) as writer:
        for batch in changes.batches():
            writer.add(history_rows(batch, place.layout))
        made.add = writer.finish()
    failpoint("iceberg.files.written")
    return made


def history_rows(batch: ChangeBatch, layout: Layout) -> pa.Table:
    """The rows of a batch: the source's columns after the change, of a deleted row as far as the log has them before it."""
    if batch.sequence_numbers is None:
        raise BugError("changes without sequence numbers", code="RPL-9422", table=str(batch.table))
    op = batch.op.to_numpy(zero_copy_only=False)
    before = pa.nulls(len(op), batch.schema.struct) if batch.before is None else batch.before
    deleted = pa.array(op == DMLOperation.DELETE)
    sent = [*batch.row.flatten()]
    if batch.before is not None and deleted.true_count:
        sent = [pc.if_else(deleted, old, new) for old, new in zip(before.flatten(), sent, strict=True)]
    times = np.full(len(op), -1, np.int64) if batch.timestamps is None else batch.timestamps
    letters = np.array(["", *(_LETTERS[kind] for kind in sorted(_LETTERS))], dtype=object)
    extra = {
        "_op": pa.array(letters[op], pa.string()),
        "_sequence_num": pa.array(batch.sequence_numbers, pa.int64()),
        "_source_timestamp": pa.array(times, pa.int64(), mask=times < 0).cast(pa.timestamp("us", "UTC")),
        "_unchanged": _names_of({n: m.to_numpy(zero_copy_only=False) for n, m in batch.unchanged.items()}, len(op)),
        BEFORE: _by_name(before, layout.field(BEFORE).type),
    }
    return encode_rows(pa.Table.from_arrays(sent, schema=batch.schema.arrow), layout, extra)


def _by_name(rows: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """The same with the columns in the table's order, which columns that come and go make another than the source's."""
    columns = [rows.field(kind.field(place).name) for place in range(kind.num_fields)]
    fields = [pa.field(kind.field(place).name, column.type) for place, column in enumerate(columns)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(rows))


def _names_of(masks: dict[str, Bools], size: int) -> pa.ListArray:
    """For each change the names of the columns that it did not send; NULL where it sent all."""
    kind = pa.list_(pa.field("element", pa.string()))
    if not masks or not size:
        return pa.nulls(size, kind)
    table = np.column_stack(list(masks.values()))
    counts = table.sum(axis=1)
    names = np.array(list(masks), dtype=object)[np.nonzero(table)[1]]
    ends = np.concatenate([[0], np.cumsum(counts)])
    offsets = pa.array(ends, pa.int32(), mask=np.append(counts == 0, [False]))
    return pa.ListArray.from_arrays(offsets, pa.array(names, pa.string()), type=kind)


def snapshot_rows(rows: pa.RecordBatch, layout: Layout) -> pa.Table:
    """Rows that a copy has read."""
    size = rows.num_rows
    extra = {"_op": pa.repeat(pa.scalar(SNAPSHOT), size), "_sequence_num": pa.repeat(pa.scalar(0, pa.int64()), size)}
    return encode_rows(rows, layout, extra)


def truncate_row(layout: Layout, sequence: int) -> pa.Table:
    """The row that says that the source has emptied the table."""
    made = {"_op": pa.array([TRUNCATE]), "_sequence_num": pa.array([sequence], pa.int64())}
    return encode_rows(pa.table({"_op": made["_op"]}), layout, made)
