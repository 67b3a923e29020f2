"""Reads the rows of some keys at the source, and which of these keys the target has, as changes of the target's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from replicator_runtime.engine.repair.original_values import original
from replicator_runtime.engine.verification import checksums
from replicator_sdk import BatchIdentity, ChangeBatch, DMLOperation, TableChanges, chunk_dataframe, combined
from replicator_sdk.errors import NeedsUserError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from replicator_sdk import TableSchema, TableSnapshot, TableVersion

BYTES_AT_MOST: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """What the target's table lacks or has too much of.

    Attributes:
        schema: The table's schema.
        written: Rows of the source, the schema's columns.
        deleted: Keys that the target has and the source has not, the key's columns.
    """

    schema: TableSchema
    written: pa.Table
    deleted: pa.Table

    def changes(self, identity: BatchIdentity) -> TableChanges:
        """The same as changes: first the deletes, then the rows."""
        batches = [batch for batch in (self._deletes(identity), self._writes(identity)) if len(batch)]
        return TableChanges(
            self.schema,
            identity,
            batches,
            rows=sum(map(len, batches)),
            nbytes=sum(batch.nbytes for batch in batches),
            overlap=True,
            inserts_only=not self.deleted.num_rows,
        )

    def _writes(self, identity: BatchIdentity) -> ChangeBatch:
        rows = pa.StructArray.from_arrays(
            [combined(column) for column in self.written.columns], fields=list(self.schema.struct)
        )
        return _batch(self.schema, DMLOperation.INSERT, rows, None, identity)

    def _deletes(self, identity: BatchIdentity) -> ChangeBatch:
        count, key = self.deleted.num_rows, set(self.schema.primary_key)
        before = pa.StructArray.from_arrays(
            [
                combined(self.deleted.column(c.name)) if c.name in key else pa.nulls(count, c.type.arrow)
                for c in self.schema.columns
            ],
            fields=list(self.schema.struct),
        )
        return _batch(self.schema, DMLOperation.DELETE, pa.nulls(count, self.schema.struct), before, identity)


def _batch(schema: TableSchema, operation: DMLOperation, row: Any, before: Any, identity: BatchIdentity) -> ChangeBatch:
    count = len(row)
    return ChangeBatch(
        schema,
        pa.array(np.full(count, int(operation), np.int8)),
        row,
        before,
        np.arange(count, dtype=np.int64),
        sequence_numbers=np.full(count, identity.last_sequence, np.int64),
        timestamps=np.full(count, -1, np.int64),
    )


def read_rows(
    spark: SparkSession, snapshot: TableSnapshot, version: TableVersion, keys: Any, left_out: frozenset[str]
) -> Rows:
    """Read them; the source's table is read once, the target's once.

    Args:
        spark: The session.
        snapshot: The source's rows.
        version: The target's.
        keys: Hashes of keys, an array of `KEY`.
        left_out: The operations that the pipeline leaves out of the table: what follows from them is left as it is.

    Raises:
        NeedsUserError: RPL-1372 when the rows are too large.
        RetryableError: RPL-1373 when a value does not come back from the target's form as it was.
    """
    from pyspark import StorageLevel

    schema, form = snapshot.schema, version.form
    names, key = schema.names, schema.primary_key
    source = chunk_dataframe(spark, schema, snapshot.chunks, snapshot.read, form)
    wanted = checksums.rows_among(source, schema, keys, spark).persist(StorageLevel.DISK_ONLY)
    try:
        _check_size(wanted, schema)
        rows = wanted.toArrow()
    finally:
        wanted.unpersist()
    held = (
        checksums.rows_among(version.rows, schema, keys, spark, key)
        .dropDuplicates(list(checksums.KEY_HASHES))
        .toArrow()
    )
    at_source, at_target = _hashes(rows), _hashes(held)
    if "INSERT" in left_out:
        rows = rows.filter(pa.array([found in set(at_target) for found in at_source], pa.bool_()))
    gone = [found not in set(at_source) for found in at_target]
    if left_out & {"DELETE", "TRUNCATE_TABLE"}:
        gone = [False] * len(gone)
    return Rows(
        schema,
        _original(rows, names, schema, form),
        _original(held.filter(pa.array(gone, pa.bool_())), key, schema, form),
    )


def _hashes(rows: pa.Table) -> list[tuple[int, int]]:
    return list(zip(*(rows.column(name).to_pylist() for name in checksums.KEY_HASHES), strict=True))


def _check_size(rows: DataFrame, schema: TableSchema) -> None:
    """Refuse more bytes than should be in memory, before they are."""
    from pyspark.sql import functions as sql

    size = sql.sum(sql.octet_length(sql.to_json(sql.struct(*(name for name in rows.columns)))))
    nbytes = rows.agg(size).collect()[0][0] or 0
    if nbytes > BYTES_AT_MOST:
        raise NeedsUserError(
            f"the rows that differ have {nbytes >> 20:,} MB, more than are repaired one by one",
            code="RPL-1372",
            hint="copy the table again: `replicator table resync NAME TABLE --in-place`",
            table=str(schema.table),
        )


def _original(rows: pa.Table, names: Iterable[str], schema: TableSchema, form: pa.Schema) -> pa.Table:
    """Rows in the target's form, without the hashes, as the source has them.

    Raises:
        RetryableError: RPL-1373.
    """
    columns = {}
    for place, name in enumerate(names, len(checksums.KEY_HASHES)):
        try:
            kept = combined(rows.column(place)).cast(form.field(name).type)
            columns[name] = original(kept, schema[name].type)
        except ValueError:  # its text may hold a value
            raise RetryableError(
                f"values of column {name} are not repaired, since they do not come back from the target's form as they were",
                code="RPL-1373",
                hint="copy the table again: `replicator table resync NAME TABLE --in-place`",
                table=str(schema.table),
            ) from None
    return pa.table(columns)
