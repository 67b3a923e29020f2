"""Removals of a table without a key whose rows are not there yet: their inserts are in other partitions of the log.

They are stored in a metadata domain of the table's log, in the commit of their batch, so that they and the rows are of one
version. A later insert of an equal row is not written: both are done.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa

from replicator_sdk.batch import Int64s, combined
from replicator_sdk.errors import DataError
from replicator_sdk.net_change import encode_rows
from replicator_sdk.schema import TableId

MOST_ROWS: Final = 10_000
"""How many distinct rows a table may wait for; each commit that changes them contains all of them."""
MOST_BYTES: Final = 4 << 20
"""How many bytes they may take, compressed."""


@dataclass(frozen=True, slots=True)
class UnmatchedRows:
    """Distinct rows, each with the number of copies to be removed as soon as they arrive. Immutable.

    The columns are those of the table's files, under physical names. So the rows follow the table's structure as its files do:
    a column that they lack is NULL, one that the table does not have any more is ignored.

    Attributes:
        rows: The rows, none of them twice.
        counts: For each of them how many copies; positive.
    """

    rows: pa.Table
    counts: Int64s

    @classmethod
    def of(cls, stored: str, fields: Sequence[pa.Field]) -> Self:
        """What a table's log has stored, under the columns `fields`; none where it has stored nothing."""
        schema = pa.schema(fields)
        if not stored:
            return cls(schema.empty_table(), np.zeros(0, np.int64))
        with pa.ipc.open_stream(base64.b64decode(json.loads(stored)["rows"])) as reader:
            table = reader.read_all()
        counts = combined(table.column(0)).to_numpy(zero_copy_only=False)
        rows = table.remove_column(0)
        there = set(rows.column_names)
        columns = [rows.column(f.name) if f.name in there else pa.nulls(len(rows), f.type) for f in fields]
        return cls(pa.Table.from_arrays(columns, schema=schema), counts).distinct()

    def distinct(self) -> Self:
        """Rows that a dropped column made equal count as one."""
        if not len(self) or not self.rows.num_columns:
            return self
        codes, size = encode_rows([combined(column) for column in self.rows.columns])
        if size == len(self):
            return self
        counts = np.zeros(size, np.int64)
        np.add.at(counts, codes, self.counts)
        _, first = np.unique(codes, return_index=True)
        return type(self)(self.rows.take(pa.array(first)), counts)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def copies(self) -> int:
        """How many removals wait."""
        return int(self.counts.sum())

    def counts_of(self, rows: pa.Table) -> Int64s:
        """For each of some distinct rows how many copies of it are to be removed."""
        found = np.zeros(rows.num_rows, np.int64)
        if len(self) and rows.num_rows:
            mine, theirs, size = self._codes(rows)
            counts = np.zeros(size, np.int64)
            counts[mine] = self.counts
            found = counts[theirs]
        return found

    def changed(self, rows: pa.Table, counts: Int64s) -> Self:
        """The same with other counts of these distinct rows; 0 where none is to be removed any more."""
        mine, theirs, size = self._codes(rows)
        kept = np.ones(size, np.bool_)
        kept[theirs] = False
        stays, come = np.flatnonzero(kept[mine]), np.flatnonzero(counts)
        parts = [self.rows.take(pa.array(stays)), rows.cast(self.rows.schema).take(pa.array(come))]
        return type(self)(pa.concat_tables(parts), np.concatenate([self.counts[stays], counts[come]]))

    def _codes(self, rows: pa.Table) -> tuple[Int64s, Int64s, int]:
        """Codes of the rows here, and of others, equal for equal rows; and how many codes there are."""
        if not rows.num_columns:
            return np.zeros(len(self), np.int64), np.zeros(rows.num_rows, np.int64), 1
        both = pa.concat_tables([self.rows, rows.cast(self.rows.schema)])
        codes, size = encode_rows([combined(column) for column in both.columns])
        return codes[: len(self)], codes[len(self) :], size

    def stored(self, table: TableId, position: object) -> str:
        """What the table's log stores; empty for no rows.

        Raises:
            DataError: RPL-5407 when they are too many.
        """
        if not len(self):
            return ""
        content = self.rows.add_column(0, pa.field("", pa.int64()), pa.array(self.counts))
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, content.schema, options=options) as writer:
            writer.write_table(content)
        written = sink.getvalue()
        if len(self) > MOST_ROWS or written.size > MOST_BYTES:
            raise _too_many(table, position)
        return json.dumps({"copies": self.copies, "rows": base64.b64encode(written).decode()})


def _too_many(table: TableId, position: object) -> DataError:
    return DataError(
        f"more than {MOST_ROWS} different rows, or {MOST_BYTES >> 20} MiB of them, were updated or deleted in one partition of the"
        " log, and their inserts were read from no other partition",
        code="RPL-5407",
        table=str(table),
        position=str(position),
        hint="give the records keys (Debezium: message.key.columns) or the topic one partition, let the connector snapshot its tables again,"
        " set the source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
    )
