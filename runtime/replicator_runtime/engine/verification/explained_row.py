"""Finds one row at the source and at the target, and what is known of it in between. Reads only, and needs no lease."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from replicator_runtime.dead_letter import key_texts
from replicator_runtime.engine.control.table_names import find_table
from replicator_runtime.engine.letters.letter_file import open_letters
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import Position
from replicator_sdk.datatype import UUID as UUID_TYPE
from replicator_sdk.datatype import DataType
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_runtime.dead_letter import Letter
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_runtime.engine.verification.reading import Reading
    from replicator_sdk import (
        Refusal,
        SnapshotChunk,
        TableId,
        TableProgress,
        TableSchema,
        TableSnapshot,
        TableVersion,
    )

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """One row on both sides.

    Attributes:
        table: The table.
        state: Its state in the last run.
        source: The row at the source; None when it has none of that key.
        refused: The columns whose values the standard types do not hold; NULL in `source`.
        source_position: A position at which the source had it so, or had none.
        targets: The rows of that key at the target: one, or none, where all is well.
        version: The target's version that was read.
        progress: What that version's commit says.
        differing: The columns whose values differ; empty when the row is equal, or is on one side only.
        is_late: Whether the target may lack changes up to the position of the source's row.
        letter: The row's dead letter; None when it was not put aside.
    """

    table: TableId
    state: str
    source: Mapping[str, Any] | None
    refused: tuple[str, ...]
    source_position: str
    targets: tuple[Mapping[str, Any], ...]
    version: str
    progress: TableProgress
    differing: tuple[str, ...]
    is_late: bool
    letter: Letter | None

    @property
    def is_same(self) -> bool:
        """Whether both sides have the row with equal values, or neither has it."""
        return not self.differing and len(self.targets) == (0 if self.source is None else 1)


def explain_row(reading: Reading, name: str, key: Mapping[str, str]) -> ExplainedRow:
    """Find a row. The target is looked at first, so a row that changes meanwhile is newer at the source.

    Args:
        reading: The replicator.
        name: The table, as an operator names it.
        key: The key's columns, with values as text (binary ones in hexadecimal).

    Raises:
        NeedsUserError: RPL-1220 for an unknown table; RPL-1282 for one without a key, or without a copy; RPL-1283 for another key;
            RPL-1361 or RPL-1362 when source or target cannot be read.
        ReplicatorError: As source, target and state fail.
    """
    records = reading.records()
    record = records[find_table(name, records)]
    if not record.schemas or not record.schema.primary_key:
        raise NeedsUserError(
            f"{record.table} has no key, or was not described yet, so that no row of it can be named",
            code="RPL-1282",
            hint="`replicator verify NAME TABLE` compares all of its rows",
            table=str(record.table),
        )
    wanted, reached = _typed(record.schema, key), _reached(reading, record)
    target, reader = reading.table_reader(), reading.snapshot_reader()
    try:
        version = target.open(record.schema)
        targets = _at_target(version, record.schema, wanted)
        with reader.open(record.schema) as snapshot:
            found = _at_source(snapshot, wanted)
            position = snapshot.position
    finally:
        reader.close()
        reading.spark.stop()
    row, refused = (None, ()) if found is None else found
    shown = None if row is None else row.select(record.schema.names).cast(version.form).to_pylist()[0]
    differing = _differing(shown, targets[0]) if shown is not None and targets else ()
    return ExplainedRow(
        record.table,
        str(record.state),
        shown,
        refused,
        str(position),
        targets,
        version.name,
        version.progress,
        differing,
        all(up_to < Position(position) for up_to in (version.progress.position, reached) if up_to is not None),
        _letter(reading, record, wanted),
    )


def _reached(reading: Reading, record: TableRecord) -> Position | None:
    """Up to where the table has all changes although its own last commit is older; None where only that says so.

    To be asked before the target's version is opened.
    """
    saved = reading.saved_offset()
    works = record.state is TableState.REPLICATING and record.pause is None and not reading.is_rewinding()
    is_selected = reading.pipeline.selection.matches(record.table) is not None
    return Position(saved) if saved is not None and works and is_selected else None


def _typed(schema: TableSchema, key: Mapping[str, str]) -> dict[str, pa.Scalar]:
    """The key's values in the types of its columns.

    Raises:
        NeedsUserError: RPL-1283; never with a value.
    """
    hint = (
        f"the key is {', '.join(f'{name}={schema[name].type}' for name in schema.primary_key)}; give each column once"
    )
    if set(key) != set(schema.primary_key):
        raise NeedsUserError(
            f"{', '.join(key)} is not the key of {schema.table}", code="RPL-1283", hint=hint, table=str(schema.table)
        )
    found = {}
    for name in schema.primary_key:
        try:
            found[name] = _scalar(key[name], schema[name].type)
        except (pa.ArrowException, ValueError):
            raise NeedsUserError(
                f"what is given for {name} is no {schema[name].type}",
                code="RPL-1283",
                hint=hint,
                table=str(schema.table),
            ) from None
    return found


def _scalar(text: str, kind: DataType) -> pa.Scalar:
    """The value that is written as `text`."""
    if pa.types.is_binary(kind.arrow):
        return pa.scalar(bytes.fromhex(text), kind.arrow)
    if kind == UUID_TYPE:
        return pa.scalar(str(UUID(text)), kind.arrow)
    return pa.scalar(text).cast(kind.arrow)


def _at_target(
    version: TableVersion, schema: TableSchema, wanted: Mapping[str, pa.Scalar]
) -> tuple[Mapping[str, Any], ...]:
    from pyspark.sql import functions as sql

    count = len(schema.columns)
    rows = version.rows.toDF(*(f"c{i}" for i in range(len(version.rows.columns)))).select(
        *(f"c{i}" for i in range(count))
    )
    for name, value in wanted.items():
        place = schema.names.index(name)
        stored = pa.array([value.as_py()], value.type).cast(version.form.field(place).type)[0].as_py()
        rows = rows.where(sql.col(f"c{place}") == sql.lit(stored))
    table = rows.limit(2).toArrow().rename_columns(list(schema.names)).cast(version.form)
    return tuple(table.to_pylist())


def _at_source(snapshot: TableSnapshot, wanted: Mapping[str, pa.Scalar]) -> tuple[pa.Table, tuple[str, ...]] | None:
    """The row with that key, and its refused columns; reads chunks until it is found, several at once."""
    over = threading.Event()

    def look(chunk: SnapshotChunk) -> tuple[pa.Table, tuple[str, ...]] | None:
        if over.is_set():
            return None
        for rows, refused in _marked(snapshot, chunk):
            mask = None
            for name, value in wanted.items():
                same = pc.equal(rows.column(name), value)
                mask = same if mask is None else pc.and_(mask, same)
            index = pc.indices_nonzero(pc.fill_null(mask, False))
            if len(index):
                over.set()
                place = index[0].as_py()
                columns = tuple(name for name, refusal in refused.items() if refusal.mask[place].as_py())
                return pa.Table.from_batches([rows.slice(place, 1)]), columns
            if over.is_set():
                return None
        return None

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="explain") as pool:
        return next((found for found in pool.map(look, snapshot.chunks) if found is not None), None)


def _marked(snapshot: TableSnapshot, chunk: SnapshotChunk) -> Iterator[tuple[pa.RecordBatch, Mapping[str, Refusal]]]:
    """The rows of a chunk; where the source cannot mark values and one is refused, the rest of the chunk is not known."""
    if snapshot.read_marked is not None:
        yield from snapshot.read_marked(chunk)
        return
    for rows in snapshot.read(chunk):
        yield rows, {}


def _differing(source: Mapping[str, Any], target: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns whose values differ; NaN equals NaN."""
    return tuple(name for name, value in source.items() if value != target[name] and repr(value) != repr(target[name]))


def _letter(reading: Reading, record: TableRecord, wanted: Mapping[str, pa.Scalar]) -> Letter | None:
    arrays = [pa.array([wanted[name].as_py()], wanted[name].type) for name in record.schema.primary_key]
    key = tuple(text[0].as_py() for text in key_texts(arrays))
    return open_letters(reading.directory.dead_letters(), record.copy_id).get(key)
