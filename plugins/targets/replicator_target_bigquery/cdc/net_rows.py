"""The net changes of a batch as rows for BigQuery's change data capture: per key an upsert or a delete, and its place in the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from replicator_sdk.authoring.characters import matrix_rows
from replicator_sdk.batch import Int64s, TableChanges
from replicator_sdk.errors import BugError, DataError, NeedsUserError
from replicator_sdk.net_change import NetPlan
from replicator_target_bigquery.config import SEQUENCE
from replicator_target_bigquery.schema.encoding import RowEncoding
from replicator_target_bigquery.schema.fields import Field

CHANGE_TYPE: Final = "_CHANGE_TYPE"
CHANGE_SEQUENCE_NUMBER: Final = "_CHANGE_SEQUENCE_NUMBER"
PSEUDO_COLUMNS: Final = (Field(CHANGE_TYPE, "STRING"), Field(CHANGE_SEQUENCE_NUMBER, "STRING"))
_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_SECTION: Final = 16


class NetRows:
    """The net change of a batch per key; refuses in its constructor what change data capture cannot apply.

    Each key is in it once: its row after the last change, or a delete. Keys that were inserted and deleted within the
    batch are deleted, too: an earlier attempt with other batch limits may have written them.

    Args:
        changes: The batch.
        names: Source column → its name at the target.
        epoch: The writer's, the first section of all sequence numbers (decision 11).
        encoding: How rows are encoded.

    Raises:
        NeedsUserError: When updates lack columns: a row can only be written whole.
        DataError: When a key holds NULL.
    """

    def __init__(self, changes: TableChanges, names: dict[str, str], epoch: int, encoding: RowEncoding) -> None:
        self._changes = changes
        self._names = names
        self._epoch = epoch
        self._encoding = encoding
        # "Overlap": the target may hold some of these changes already, from an attempt that was not confirmed.
        self._plan = NetPlan(changes.batches, changes.schema, overlap=True)
        self._refuse()

    def __iter__(self) -> Iterator[dict[str, pa.Array]]:
        """Columns by their names at the target, with the pseudo-columns; each call starts from the beginning."""
        names, encode = self._names, self._encoding.column
        for part in self._plan.parts():
            rows = {names[n]: encode(names[n], part.rows.column(n)) for n in self._changes.schema.names}
            yield self._marked("UPSERT", part.sequence, rows)
        if len(self._plan.deletes):
            keys = {names[n]: encode(names[n], self._plan.deletes.column(n)) for n in self._changes.schema.primary_key}
            yield self._marked("DELETE", self._plan.delete_sequence, keys)

    def _marked(self, kind: str, sequence: Int64s, rows: dict[str, pa.Array]) -> dict[str, pa.Array]:
        marks = {
            CHANGE_TYPE: pa.repeat(kind, len(sequence)),
            CHANGE_SEQUENCE_NUMBER: change_sequence_numbers(self._epoch, sequence),
            SEQUENCE: pa.array(sequence),
        }
        return marks | rows

    def _refuse(self) -> None:
        """Check all rows before the first is sent."""
        schema = self._changes.schema
        if any(c.nullable for c in schema.key_columns()):
            self._refuse_null_keys()
        if any(batch.unchanged for batch in self._changes.batches()):
            for part in self._plan.parts():
                if part.unresolved:
                    raise self._incomplete(list(part.unresolved))

    def _refuse_null_keys(self) -> None:
        key = self._changes.schema.primary_key
        held = [self._plan.deletes, *(part.rows for part in self._plan.parts())]
        null = [n for n in key if any(rows.column(n).null_count for rows in held)]
        if null:
            raise DataError(
                f"a key holds NULL in column {null[0]}, which BigQuery's change data capture cannot find again",
                code="RPL-6703",
                table=str(self._changes.table),
                position=str(self._changes.identity.position),
                hint="replicate this table by a pipeline of its own with mode batch",
            )

    def _incomplete(self, columns: list[str]) -> NeedsUserError:
        return NeedsUserError(
            f"an UPDATE does not carry {', '.join(columns)}, and BigQuery's change data capture writes whole rows only",
            code="RPL-6702",
            table=str(self._changes.table),
            position=str(self._changes.identity.position),
            hint="let the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL), "
            "or replicate this table with mode batch",
        )


def change_sequence_numbers(epoch: int, sequence: Int64s) -> pa.StringArray:
    """`_CHANGE_SEQUENCE_NUMBER` of changes: epoch, then number in the log, both hexadecimal."""
    if len(sequence) and int(sequence.min()) < 0:
        raise BugError("a negative sequence number", code="RPL-6709")
    prefix = np.frombuffer(f"{epoch:X}/".encode(), np.uint8)
    shifts = np.arange(4 * (_SECTION - 1), -1, -4, dtype=np.uint64)
    number = _DIGITS[((sequence.astype(np.uint64)[:, None] >> shifts) & np.uint64(15)).astype(np.intp)]
    text = np.concatenate([np.broadcast_to(prefix, (len(sequence), len(prefix))), number], axis=1)
    return matrix_rows(pa.string(), text)
