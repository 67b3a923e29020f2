"""Partial updates of JSON columns: applies the changes to the document before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.authoring.arrow_buffers import Bools, Bytes
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.binlog.batches.ordered_columns import Column
from replicator_source_mysql.binlog.batches.table_plan import Reading
from replicator_source_mysql.hints import COPY_TABLE_AGAIN
from replicator_source_mysql.types.json.diff import updated_documents
from replicator_source_mysql.types.values.arrays import Cells


def with_diffs(data: Bytes, reading: Reading, place: int, after: Column, before: Column, diffs: Bools) -> pa.Array:
    """A JSON column after the changes.

    Args:
        data: The buffer.
        reading: How the table is read.
        place: The column's rank in the schema.
        after: Its cells after the changes: documents, and differences where `diffs`.
        before: Its cells before them.
        diffs: Which cells hold differences.

    Raises:
        NeedsUserError: When the document before is not in the log.
    """
    if before.absent is not None and (before.absent & diffs).any():
        raise NeedsUserError(
            f"the log holds only what changed in the JSON column {reading.plan.schema.columns[place].name!r}, and not the "
            "document before it",
            code="RPL-3706",
            table=str(reading.table),
            hint="SET GLOBAL binlog_row_value_options = '', or binlog_row_image = 'FULL' with it (sessions keep theirs until they"
            f" reconnect), then {COPY_TABLE_AGAIN}",
        )
    whole = reading.columns[place].convert(data, after.start, after.length, after.present & ~diffs)
    at = np.flatnonzero(diffs & after.present)
    policy = reading.plan.policy.of(reading.plan.schema.columns[place].name)
    texts = updated_documents(_binary(data, before, at), _binary(data, after, at), policy)
    return pc.replace_with_mask(whole, pa.array(diffs & after.present), texts.cast(whole.type))


def _binary(data: Bytes, column: Column, at: np.ndarray) -> pa.BinaryArray:
    return Cells(data, column.start[at], column.length[at], column.present[at]).binary()
