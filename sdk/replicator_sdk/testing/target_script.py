"""Histories as what the runtime would pass to a target: changes table by table, cut into flushes, with positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from replicator_sdk.batch import BatchIdentity, ChangeBatch, TableChanges
from replicator_sdk.errors import SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import DDLEvent, DDLOperation, DMLEvent, DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.snapshot import SnapshotChunk
from replicator_sdk.target import BatchConsumer, DeferredConsumer, EventConsumer, SnapshotLoader
from replicator_sdk.testing.failures.explained import at_step
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.history import History, Step
from replicator_sdk.testing.histories.reference import Change, ReferenceTable, RowChange
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.in_memory.source import MemoryChunkReader
from replicator_sdk.testing.simulate import Simulator

Item = TableChanges | DDLEvent
_EPOCH_2024 = 1_704_067_200_000_000
_REFUSABLE = ("retype_column", "change_key")
"""Kinds of steps that a target may refuse by a `SchemaDriftError`."""


@dataclass(frozen=True)
class Flush:
    """What is applied between two saves of the offset.

    Attributes:
        items: Changes and schema changes in the order in which they are to be applied.
        singles: The same, event by event, for consumers that take rows one by one.
        tables: Schemas and rows that must be there afterwards.
        copies: The table right after each DDL event that a target may refuse, by the event's position.
        name: Which transactions of which history these are.
    """

    items: tuple[Item, ...]
    singles: tuple[DDLEvent | DMLEvent, ...]
    tables: Mapping[TableId, ReferenceTable]
    copies: Mapping[Position, ReferenceTable] = field(default_factory=dict)
    name: str = ""


class ScriptBuilder:
    """Carries out a history and writes down what a target gets to see.

    Args:
        history: What happens.
        ids: The tables' names at the target.
        full_before: Whether the source emits whole rows before a change.
        epoch: The writer's epoch.
        overlap: Whether the target may hold the effect of the changes already.
    """

    def __init__(
        self,
        history: History,
        ids: Mapping[str, TableId],
        *,
        full_before: bool = False,
        epoch: int = 1,
        overlap: bool = False,
    ) -> None:
        self._history = history
        self._simulator = Simulator(history.schemas(ids.__getitem__), full_before=full_before)
        self._epoch = epoch
        self._overlap = overlap
        self._sequence = 0
        self._done = 0
        self.schemas = [self._simulator.table(name).schema for name in history.tables]

    def create(self) -> list[DDLEvent]:
        """The events that make the tables."""
        start = Position(MemoryOffset(0))
        return [DDLEvent(start.offset, DDLOperation.CREATE_TABLE, s.table, s, position=start) for s in self.schemas]

    def flush(self, transactions: Sequence[Sequence[Step]]) -> Flush:
        """The next transactions as one flush."""
        gathering = _Gathering(self._epoch, self._overlap)
        singles: list[DDLEvent | DMLEvent] = []
        copies: dict[Position, ReferenceTable] = {}
        name = self._name(transactions)
        for steps in transactions:
            offset = MemoryOffset(self._done)
            ordinal = 0
            for step in steps:
                for change in self._simulator.execute(step, offset):
                    singles.append(gathering.take(change, offset, ordinal, self._sequence + ordinal + 1))
                    ordinal += 1
                    if step.kind in _REFUSABLE and isinstance(change, DDLEvent):
                        copies[Position(offset, ordinal)] = _copy(self._simulator.reference.tables[change.table])
            self._sequence += ordinal
            self._done += 1
            gathering.end_transaction()
            singles.append(
                DMLEvent(MemoryOffset(self._done), DMLOperation.COMMIT, source_timestamp=_moment(self._done))
            )
        gathering.flush_all(Position(MemoryOffset(self._done)))
        tables = {table: _copy(found) for table, found in self._simulator.reference.tables.items()}
        return Flush(tuple(gathering.items), tuple(singles), tables, copies, name)

    def _name(self, transactions: Sequence[Sequence[Step]]) -> str:
        first, last = self._done + 1, self._done + len(transactions)
        which = f"transaction {first}" if first == last else f"transactions {first} to {last}"
        return f"{which} of history {self._history.name!r}"


def _copy(table: ReferenceTable) -> ReferenceTable:
    return ReferenceTable(table.schema, [dict(row) for row in table.rows])


class _Gathering:
    """Gathers changes by table; a schema change ends what was gathered for its table."""

    def __init__(self, epoch: int, overlap: bool) -> None:
        self.items: list[Item] = []
        self._epoch = epoch
        self._overlap = overlap
        self._batches: dict[TableId, list[ChangeBatch]] = {}
        self._open: dict[TableId, list[tuple[RowChange, int]]] = {}
        self._transaction = 0

    def take(self, change: Change, offset: MemoryOffset, ordinal: int, sequence: int) -> DDLEvent | DMLEvent:
        """One change; returns it as a single event."""
        self._transaction = offset.transaction
        if isinstance(change, RowChange):
            self._open.setdefault(change.schema.table, []).append((change, sequence))
            return DMLEvent(
                offset,
                change.operation,
                change.schema.table,
                change.row,
                change.before,
                change.unchanged,
                source_timestamp=_moment(offset.transaction),
                sequence_number=sequence,
            )
        self._flush(change.table, Position(offset, ordinal))
        position = Position(offset, ordinal + 1)
        event = replace(change, offset=offset, ordinal=ordinal, sequence_number=sequence, position=position)
        self.items.append(event)
        return event

    def end_transaction(self) -> None:
        """Each transaction makes batches of its own, so that targets see several."""
        for table in self._open:
            self._close(table)

    def flush_all(self, position: Position) -> None:
        """What is gathered, as of `position`."""
        for table in list(self._batches):
            self._flush(table, position)

    def _close(self, table: TableId) -> None:
        if changes := self._open.get(table):
            numbers = [sequence for _, sequence in changes]
            rows, stamp = [change for change, _ in changes], _EPOCH_2024 + self._transaction
            ordinals = [number - numbers[0] for number in numbers]
            self._batches.setdefault(table, []).append(to_batch(rows, ordinals, numbers[0] - 1, stamp))
            self._open[table] = []

    def _flush(self, table: TableId, position: Position) -> None:
        self._close(table)
        if batches := self._batches.pop(table, []):
            numbers = [int(n) for b in batches if b.sequence_numbers is not None for n in b.sequence_numbers]
            identity = BatchIdentity(1, self._epoch, min(numbers), max(numbers), position)
            self.items.append(to_table_changes(batches, identity, overlap=self._overlap))


def script(history: History, ids: Mapping[str, TableId], cut: str, *, full_before: bool = False) -> Iterator[Flush]:
    """A history cut into flushes.

    Args:
        history: What happens.
        ids: The tables' names at the target.
        cut: `all at once`, `first alone` (the rest at once), or `one by one`.
        full_before: Whether the source emits whole rows before a change.
    """
    builder = ScriptBuilder(history, ids, full_before=full_before)
    for group in cut_transactions(history, cut):
        yield builder.flush(group)


def cut_transactions(history: History, cut: str) -> list[tuple[tuple[Step, ...], ...]]:
    """A history's transactions in groups."""
    all_of_them = history.transactions
    if cut == "all at once":
        return [all_of_them]
    if cut == "first alone":
        return [group for group in (all_of_them[:1], all_of_them[1:]) if group]
    return [(transaction,) for transaction in all_of_them]


def apply(consumer: EventConsumer, flush: Flush) -> None:
    """Passes a flush to a consumer by the methods it has; all of it is durable on return."""
    if isinstance(consumer, BatchConsumer):
        for item in flush.items:
            at_step(f"{flush.name}: {_described(item)}")
            if isinstance(item, DDLEvent):
                _settle(consumer, {item.table})
                _apply_ddl(consumer, item, flush)
            else:
                consumer.apply_batch(item)
        _settle(consumer, {item.table for item in flush.items})
        return
    for event in flush.singles:
        at_step(f"{flush.name}: {event.operation.name} {event.table or ''}")
        if isinstance(event, DDLEvent):
            consumer.flush()
            consumer.apply_ddl(event)
        else:
            consumer.apply_dml(event)
    consumer.flush()


def _apply_ddl(consumer: BatchConsumer, event: DDLEvent, flush: Flush) -> None:
    """Apply the event; where the target refuses one that it may refuse, copy the table again, as people do."""
    table = None if event.position is None else flush.copies.get(event.position)
    if table is None or event.position is None or not isinstance(consumer, SnapshotLoader):
        consumer.apply_ddl(event)
        return
    try:
        consumer.apply_ddl(event)
    except (SchemaDriftError, SnapshotNeededError):
        load(consumer, table, f"after {event.position}", event.position)


def _described(item: Item) -> str:
    if isinstance(item, DDLEvent):
        steps = ", ".join(alter.kind for alter in item.alters)
        return f"{item.operation} {item.table} {f'({steps}) ' if steps else ''}at {item.position}"
    return f"{item.rows} changes of {item.table} up to {item.identity.position}"


def load_whole(
    loader: SnapshotLoader,
    table: ReferenceTable,
    plan: str,
    position: Position,
    all_read: Callable[[], None] = lambda: None,
) -> None:
    """Load a table of two chunks at once."""
    at_step(f"load {table.schema.table} at once by the plan {plan!r}")
    reader = MemoryChunkReader(table.schema, table.rows)
    loader.load_whole(table.schema, plan, position, snapshot_chunks(2), reader, all_read)


def load(loader: SnapshotLoader, table: ReferenceTable, plan: str, position: Position, *, chunks: int = 3) -> None:
    """Load a whole table in some chunks, those that are missing."""
    all_chunks = snapshot_chunks(chunks)
    at_step(f"begin the snapshot {plan!r} of {table.schema.table}")
    there = loader.begin_snapshot(table.schema, plan, position)
    if missing := [chunk for chunk in all_chunks if chunk.index not in there]:
        at_step(f"load chunks {[chunk.index for chunk in missing]} of the snapshot {plan!r} of {table.schema.table}")
        loader.load_chunks(table.schema, plan, missing, MemoryChunkReader(table.schema, table.rows))
    at_step(f"finish the snapshot {plan!r} of {table.schema.table}")
    loader.finish_snapshot(table.schema, plan, position)


def snapshot_chunks(count: int) -> list[SnapshotChunk]:
    """Chunks for a `MemoryChunkReader`."""
    return [SnapshotChunk(i, {"rest": i, "of": count}) for i in range(count)]


def _settle(consumer: EventConsumer, tables: set[TableId]) -> None:
    """Have a consumer that defers its commits commit, as the engine does; its failure is raised."""
    if isinstance(consumer, DeferredConsumer):
        consumer.settle(tables)
        for table in tables:
            consumer.settled(table)


def _moment(transaction: int) -> datetime:
    return datetime.fromtimestamp((_EPOCH_2024 + transaction) / 1_000_000, UTC)
