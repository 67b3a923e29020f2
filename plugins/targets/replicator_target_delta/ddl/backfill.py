"""Rewrites a table's files under a changed definition: filled new columns, columns of another type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from replicator_sdk.batch import combined
from replicator_sdk.distributed.executors import is_local, run_on_executors, run_on_threads
from replicator_target_delta.apply.row_matching import live_rows
from replicator_target_delta.files.data_file import write_data_file
from replicator_target_delta.files.live_files import DataFile
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class NewValues:
    """What a new physical column holds in rows that are there; picklable.

    Attributes:
        field: The column in the files.
        default: The value of every row, of the field's type; None when it comes from another column.
        origin: The column it is cast from.
        only_null: Only rows that have NULL in this field get `default`; None for all rows.
    """

    field: pa.Field
    default: pa.Scalar | None = None
    origin: pa.Field | None = None
    only_null: pa.Field | None = None

    def of(self, rows: pa.Table) -> pa.Array:
        """The column's values for `rows`; exact or `pyarrow.ArrowInvalid`."""
        if self.origin is not None:
            return combined(rows.column(self.origin.name)).cast(self.field.type)
        assert self.default is not None
        if self.only_null is not None:
            chosen = combined(rows.column(self.only_null.name)).is_null()
            return pc.if_else(chosen, self.default, pa.scalar(None, self.field.type))
        return pa.repeat(self.default, rows.num_rows)


@dataclass(frozen=True, slots=True)
class _Rewrite:
    root: str
    location: str
    vector: dict[str, Any] | None


def rewrite_table(
    spark: SparkSession, state: State, storage: Storage, target: pa.Schema, values: Sequence[NewValues]
) -> list[DataFile]:
    """New files that hold the table's rows under `target`; the caller commits them and removes the old ones.

    Raises:
        pyarrow.ArrowInvalid: When a value does not fit its new type.
    """
    tasks = [_Rewrite(storage.root, f.location, f.vector) for f in state.files]
    work = partial(_rewrite, target=target, values=tuple(values))
    results = run_on_threads(work, tasks) if is_local(spark) else run_on_executors(spark, work, tasks)
    return [DataFile(add) for adds in results for add in adds]


def _rewrite(task: _Rewrite, *, target: pa.Schema, values: tuple[NewValues, ...]) -> list[dict[str, Any]]:
    """One new file for the live rows of one old file."""
    storage = Storage(task.root)
    made = {v.field.name: v for v in values}
    read = [f for f in target if f.name not in made]
    read += [v.origin for v in values if v.origin is not None and v.origin.name not in {f.name for f in read}]
    parts = []
    for rows in live_rows(task.root, task.location, task.vector, read):
        kept = rows.combine_chunks()
        columns = [made[f.name].of(kept) if f.name in made else combined(kept.column(f.name)) for f in target]
        parts.append(pa.Table.from_arrays(columns, schema=target))
    rows = pa.concat_tables(parts) if parts else target.empty_table()
    return [write_data_file(storage, rows)] if rows.num_rows else []
