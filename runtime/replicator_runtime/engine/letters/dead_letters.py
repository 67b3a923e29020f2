"""Has the target take changes without the rows that it, or the decoder, refuses; those are put aside as dead letters.

A table's letters at a position follow from the log up to there. A file with all of them is written before the target has the
changes that lead to them, and names that position; which file is valid is what the target's own position says. So a run that is
killed, or whose commit fails, between the two leaves a file that no one reads, and the replay writes another one.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from replicator_runtime.engine.letters.letter_file import (
    Version,
    content_of,
    copy_of,
    damaged,
    file_name,
    newest,
    version_of,
)
from replicator_runtime.engine.letters.separation import refusal_error, separate
from replicator_sdk import ChangeBatch, DeferredConsumer, Position, Refusal, TableChanges
from replicator_sdk.errors import DataError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register

if TYPE_CHECKING:
    from replicator_runtime.config.model import PipelineConfig
    from replicator_runtime.dead_letter import Letters
    from replicator_sdk import BatchConsumer, DDLEvent, Metrics, Offset, TableId, TableSchema
    from replicator_state import LaneFolder

register("engine.letters.before_write", "engine.letters.written", "engine.letters.removed")
log = structlog.get_logger()


class DeadLetters:
    """The letters of one run. Safe from any thread; changes of one table come from one thread at a time.

    Args:
        folder: Where their files are.
        config: The pipeline's settings.
        epoch: The run's.
        read_offset: Reads the source's offsets.
        copy_of: Names a table's copy: its letters are of that copy, under whatever name the table has.
        metrics: Counts what is put aside.
        kept_of: The columns that a table's target has kept and the source has dropped.
    """

    def __init__(
        self,
        folder: LaneFolder,
        config: PipelineConfig,
        epoch: int,
        read_offset: Callable[[Mapping[str, bytes]], Offset],
        copy_of: Callable[[TableId], str],
        metrics: Metrics,
        kept_of: Callable[[TableId], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._folder = folder
        self._policy, self._bounds = config.on_data_error, config.dead_letters
        self._epoch = epoch
        self._read_offset = read_offset
        self._copy_of = copy_of
        self._metrics = metrics
        self._kept_of = kept_of
        self._lock = threading.Lock()
        self._names: defaultdict[str, list[str]] | None = None
        self._versions: dict[str, list[Version]] = {}
        self._number = 0

    # --- changes

    def apply(self, consumer: BatchConsumer, changes: TableChanges) -> None:
        """Have the target take what can be taken of `changes`; the rest is put aside, durable before the target has them.

        Raises:
            DataError: When a value is refused and may not be put aside or replaced, or too many rows are.
            Exception: As `BatchConsumer.apply_batch`, or as the state's store fails.
        """
        versions = self._known(self._copy_of(changes.table))
        if self._policy == "fail" and not versions:
            consumer.apply_batch(changes)
            return
        try:
            self._apply(consumer, changes, versions)
        except DataError as error:
            if self._policy == "fail":
                raise
            marked = _marked(consumer, changes, error)
            self._apply(consumer, marked, versions)

    def truncate(self, consumer: BatchConsumer, event: DDLEvent) -> None:
        """The source removed all rows of a table: from the event's position on it has no letters. Called before the target is."""
        assert event.position is not None
        versions = self._known(self._copy_of(event.table))
        at = self._position(consumer, event.table) if versions else None
        current = newest(versions, at) if at is not None else None
        if current is not None and current.letters and not event.position <= current.position:
            names = current.key_columns
            self._write(self._copy_of(event.table), versions, event.position, (event.table, names), {})

    def _apply(self, consumer: BatchConsumer, changes: TableChanges, versions: list[Version]) -> None:
        if self._policy != "lane":
            changes = self.replaced(changes)
        if not versions and not any(batch.refused for batch in changes.batches()):
            consumer.apply_batch(changes)
            return
        at = self._position(consumer, changes.table)
        if at is not None and changes.identity.position <= at:
            consumer.apply_batch(changes)  # the target has them, and does nothing
            return
        copy_id = self._copy_of(changes.table)
        if not copy_id:  # of a source without snapshots: a table without a copy has no letters
            self.replaced(changes)
        self._tidy(versions, at)
        current = newest(versions, at) if at is not None else None
        before: Letters = {} if current is None else current.letters
        separated = separate(changes, before, self._kept_of(changes.table))
        if separated.letters != before:
            self._check(changes.table, separated.letters, str(changes.identity.position))
            head = (changes.table, changes.schema.primary_key)
            self._write(copy_id, versions, changes.identity.position, head, separated.letters)
        consumer.apply_batch(separated.changes)
        self._report(changes.table, len(separated.letters), separated.put_aside)

    def replaced(self, changes: TableChanges) -> TableChanges:
        """The changes with refused values NULL and no more marked, as `null` asks for.

        Raises:
            DataError: When a value is refused and the policy is another one, or the column cannot be NULL.
        """
        count = 0
        for batch in changes.batches():
            for column, refusal in batch.refused.items():
                if self._policy != "null" or not _may_be_null(batch.schema, column):
                    raise refusal_error(changes, batch, column)
                count += refusal.mask.true_count
        if not count:
            return changes
        self._metrics.count("letters.replaced_by_null", count, table=changes.table)
        log.warning("letters.replaced_by_null", table=str(changes.table), values=count)

        def batches() -> Iterator[ChangeBatch]:
            return (replace(batch, refused={}) if batch.refused else batch for batch in changes.batches())

        return changes.with_batches(batches, rows=changes.rows, inserts_only=changes.inserts_only)

    def _report(self, table: TableId, count: int, put_aside: int) -> None:
        self._metrics.gauge("letters.open", count, table=table)
        if put_aside:
            self._metrics.count("letters.put_aside", put_aside, table=table)
            log.warning("letters.put_aside", table=str(table), changes=put_aside, rows=count)

    def _check(self, table: TableId, letters: Letters, position: str | None) -> None:
        """Refuse more than the bounds allow; nothing is changed then."""
        nbytes = sum(letter.nbytes for letter in letters.values())
        if len(letters) <= self._bounds.max_rows and nbytes <= self._bounds.max_bytes:
            return
        raise DataError(
            f"{len(letters):,} rows of {nbytes:,} bytes would be put aside, more than deadLetters.maxRows or deadLetters.maxBytes allow",
            code="RPL-5050",
            table=str(table),
            position=position,
            hint="`replicator dead-letters list NAME` shows what is wrong with those put aside before: fix it at the source, leave the"
            " column out by `columns`, or raise the bound in `deadLetters`; then `replicator table retry NAME TABLE`",
        )

    # --- copies

    def keep_of_copy(self, table: TableSchema, copy_id: str, position: Position, letters: Letters) -> None:
        """Keep the letters of rows that a copy leaves out, beside those of its chunks that are loaded; durable on return.

        One of an earlier reading of the same rows is kept, too, where chunks are loaded: the log is applied from that reading on
        and ends it.

        Raises:
            DataError: RPL-5050 when there are too many.
            Exception: As the state's store fails.
        """
        versions = self._known(copy_id)
        before = newest(versions)
        merged = {**(before.letters if before is not None else {}), **letters}
        if before is None or merged != before.letters or before.position != position:
            self._check(table.table, merged, str(position))
            self._write(copy_id, versions, position, (table.table, table.primary_key), merged)
        self._report(table.table, len(merged), len(letters))

    def forget_copy(self, copy_id: str) -> None:
        """Forget the letters of a copy of which no chunk is loaded."""
        versions = self._known(copy_id)
        self._folder.remove([version.name for version in versions])
        versions.clear()

    # --- files

    def may_have(self, copy_id: str) -> bool:
        """Whether rows of the table with this copy are, or are to be, put aside.

        Raises:
            SnapshotNeededError: When a file of them is damaged.
        """
        return self._policy == "lane" or self.open_rows(copy_id) > 0

    def open_rows(self, copy_id: str) -> int:
        """How many rows are put aside of the table with this copy, as its newest file says."""
        version = newest(self._known(copy_id))
        return 0 if version is None else len(version.letters)

    def name_copies(self, tables: Mapping[str, TableId]) -> None:
        """Have the files of these copies say what their tables are called now, by which operators name them; durable on return.

        Called while none of them is being copied. A damaged file is left to who needs its letters.
        """
        for copy_id, table in tables.items():
            try:
                versions = self._known(copy_id)
            except SnapshotNeededError:
                continue
            last = newest(versions)
            if last is not None and last.letters and last.table != table:
                self._write(copy_id, versions, last.position, (table, last.key_columns), last.letters)

    def forget_others(self, copy_ids: set[str]) -> None:
        """Delete the files of all copies but these, which no table has any more."""
        with self._lock:
            unused = [copy_id for copy_id in self._listed() if copy_id not in copy_ids]
            names = [name for copy_id in unused for name in self._listed().pop(copy_id)]
            for copy_id in unused:
                self._versions.pop(copy_id, None)
        self._folder.remove(names)
        if names:
            failpoint("engine.letters.removed")

    def _listed(self) -> defaultdict[str, list[str]]:
        if self._names is None:
            names: defaultdict[str, list[str]] = defaultdict(list)
            for name in self._folder.names():
                copy_id = copy_of(name)
                if copy_id is not None:
                    names[copy_id].append(name)
            self._names = names
        return self._names

    def _known(self, copy_id: str) -> list[Version]:
        with self._lock:
            if copy_id not in self._versions:
                names = self._listed().get(copy_id, [])
                self._versions[copy_id] = [self._read(name) for name in names]
            return self._versions[copy_id]

    def _read(self, name: str) -> Version:
        try:
            content = self._folder.read(name)
        except FileNotFoundError:
            raise damaged(name) from None
        return version_of(name, content, self._read_offset)

    def _write(
        self,
        copy_id: str,
        versions: list[Version],
        position: Position,
        head: tuple[TableId, tuple[str, ...]],
        letters: Letters,
    ) -> None:
        with self._lock:
            self._number += 1
            number = self._number
            name = file_name(copy_id, self._epoch, number)
            self._listed()[copy_id].append(name)
        version = Version(name, self._epoch, number, position, *head, letters)
        failpoint("engine.letters.before_write")
        self._folder.create(name, content_of(version))
        failpoint("engine.letters.written")
        versions.append(version)

    def _tidy(self, versions: list[Version], at: Position | None) -> None:
        """Delete what the target's position makes void: versions before the valid one, and those that it never came to."""
        valid = newest(versions, at) if at is not None else None
        kept = [] if valid is None or not valid.letters else [valid]
        unneeded = [version for version in versions if version not in kept]
        if not unneeded:
            return
        unneeded.sort(
            key=lambda version: version is valid
        )  # it last: without it, an earlier one would seem to be valid
        self._folder.remove([version.name for version in unneeded])
        failpoint("engine.letters.removed")
        versions[:] = kept

    def _position(self, consumer: BatchConsumer, table: TableId) -> Position | None:
        """How far the table is, everything that the target has taken included: the letters of that, too, are gone on from."""
        if isinstance(consumer, DeferredConsumer):
            consumer.settle({table})
            consumer.settled(table)  # raises why that has failed
        progress = consumer.progress(table)
        return None if progress is None else progress.position


def _may_be_null(schema: TableSchema, column: str) -> bool:
    return schema[column].nullable and column not in schema.primary_key


def _marked(consumer: BatchConsumer, changes: TableChanges, error: DataError) -> TableChanges:
    """The changes with what the target refuses of them marked.

    Raises:
        DataError: `error`, when the target names no value that was not marked before.
    """
    found: dict[int, dict[str, Refusal]] = {}
    for number, batch in enumerate(changes.batches()):
        refused = {
            name: refusal
            for name, refusal in consumer.find_refused(batch).items()
            if name not in batch.schema.primary_key and refusal.mask.true_count
        }
        if refused:
            found[number] = refused
    if not found:
        raise error

    def marked() -> Iterator[ChangeBatch]:
        for number, batch in enumerate(changes.batches()):
            yield _with_nulls(batch, found[number]) if number in found else batch

    return changes.with_batches(marked, rows=changes.rows, inserts_only=changes.inserts_only)


def _with_nulls(batch: ChangeBatch, refused: Mapping[str, Refusal]) -> ChangeBatch:
    """The batch with refused values NULL and marked, beside those that were marked before."""
    columns = []
    for column in batch.schema.columns:
        values = batch.row.field(column.name)
        if column.name in refused:
            values = pc.if_else(refused[column.name].mask, pa.scalar(None, values.type), values)
        columns.append(values)
    joined = dict(batch.refused)
    for name, refusal in refused.items():
        mask = pc.or_(joined[name].mask, refusal.mask) if name in joined else refusal.mask
        joined[name] = Refusal(mask, refusal.code, refusal.what)
    mask = pc.is_null(batch.row) if batch.row.null_count else None
    return replace(
        batch, row=pa.StructArray.from_arrays(columns, fields=list(batch.schema.struct), mask=mask), refused=joined
    )
