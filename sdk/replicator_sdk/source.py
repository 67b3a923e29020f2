"""The contract of a source: what a source plugin implements and what the runtime promises it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Generic, Literal

from replicator_sdk.batch import ChangeBatch, Commits
from replicator_sdk.config import ConfigT_co, OutOfRange, PluginConfig
from replicator_sdk.context import Configurer, DeltaSourceContext
from replicator_sdk.discovery.assessment import AcceptingAssessor, TableAssessor
from replicator_sdk.discovery.clean_up import SourceCleanUp, StoredState
from replicator_sdk.discovery.dataset import NamesDatasets
from replicator_sdk.discovery.source_health import HealthProbe, SourceHealth
from replicator_sdk.discovery.table_registry import TableRegistry
from replicator_sdk.distributed.partitioned_log import DistributedLog
from replicator_sdk.event import DDLEvent, DDLOperation, DMLEvent
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import SnapshotReader

if TYPE_CHECKING:
    import pyarrow as pa

PLUGIN_TYPE_SOURCE = "cdcSource"


class ReaderClosed(Exception):  # noqa: N818 - a signal, not an error
    """Raised by the emitter in the reader's thread once the reader is to stop; let it pass out of `run`."""


def _every_table(table: TableId) -> bool:  # noqa: ARG001 - as `EventReaderDefinition.selects`
    return True


def _nowhere(table: TableId) -> Offset | None:  # noqa: ARG001 - as `EventReaderDefinition.reached`
    return None


@dataclass(frozen=True, slots=True)
class EventReaderDefinition:
    """What a reader is to read.

    Attributes:
        tables: The captured tables and their schemas as of the offset the reader will start from (selected columns
            only). The reader decodes with these and emits an ALTER_TABLE when the log shows another schema.
        out_of_range: What happens to values that the standard types cannot hold.
        narrowed: Tables of which the pipeline selects columns by name: a column added to one later is not wanted. Of
            all other tables every column is.
        stopped: Tables that have stopped: their changes are not wanted, and what is wrong with them is no error.
        selects: Whether the pipeline selects a table, also one that is not known yet; picklable. What is wrong with other
            tables is no error.
        reached: How far a table is durable at the target; None where that is unknown. Safe from any thread; before the
            reader is initialised it asks the target.
        marks_refused: Whether values that the standard types cannot hold, and that `out_of_range` does not replace, are NULL and
            marked (`ChangeBatch.refused`, `TableSnapshot.read_marked`) instead of a `DataError`. A key's value never is, nor one
            in an image before. True only where `DeltaSource.marks_refused` says so.
        conditions: Tables of which a snapshot has only the rows for which this holds: a condition in the source's SQL, which
            the source puts between parentheses. Only sources with `DeltaSource.filters_snapshots` get any.
    """

    tables: Mapping[TableId, TableSchema]
    out_of_range: OutOfRange = OutOfRange.FAIL
    narrowed: frozenset[TableId] = frozenset()
    stopped: frozenset[TableId] = frozenset()
    selects: Callable[[TableId], bool] = _every_table
    reached: Callable[[TableId], Offset | None] = _nowhere
    marks_refused: bool = False
    conditions: Mapping[TableId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Where a pipeline begins that copies no rows: one of the two.

    Attributes:
        offset: A position of the source's log as its administrators write it; empty where a time is given.
        time: The first transaction that was committed at this moment or later is the first that is read; aware.
    """

    offset: str = ""
    time: datetime | None = None

    @property
    def kind(self) -> Literal["offset", "time"]:
        """Which of the two is given."""
        return "offset" if self.time is None else "time"

    def __str__(self) -> str:
        return self.offset if self.time is None else self.time.isoformat()


class EventEmitter(ABC):
    """Takes a reader's events in log order. Used by the reader's thread only; blocks while the queue is full.

    The reader works in windows of its own choosing. Inside a window every event (change or DDL, of any table, also of
    tables or columns that are filtered later) has an ordinal: its rank since the last emitted commits, from 0, without
    gaps over all tables. A log whose events may be deleted before they are read again gives ordinals by their places in it, and
    leaves out those of places without an event: a replay must give the events that are left the ordinals that they had. In a transaction that changes structure, a table's ordinals may leave out the DDL events of other
    tables, where these depend on the selection. Changes of different tables may be emitted in any order; those of one table, and a DDL event
    against its table's changes, in log order. `emit_commits` ends the window: the next event has ordinal 0 again.
    A transaction larger than the reader wants to hold is emitted in several batches with ordinals running on.

    The position of a DDL event is the offset emitted last (its base) and its ordinal. The runtime stores it with the
    table and compares it with other offsets, so every replay, from whatever offset and with or without heartbeats, must
    give a DDL event the same base and ordinal. For that

    * a DDL event is in the first transaction of its window: the reader first emits the commits of all transactions that
      ended before it;
    * if there are offsets between two transactions at all (a heartbeat's, a snapshot's), the reader emits an empty commit
      before the first event of a transaction that contains a DDL event: `single_commit(0, begin)`. It does the same
      before a transaction whose first events it emits before its commit is read. `begin` is determined by the log alone,
      not before any offset that was emitted, nor a snapshot's, before the transaction, and before the transaction's commit;
    * a change of structure that is noticed between two transactions is emitted at an offset that is stored durably
      first (`DeltaContext.put_state`), so that a replay emits it there as well.

    The runtime ends with RPL-9013 when a table's position is inside the transaction of a DDL event.

    Row-by-row readers emit `DMLEvent`s and `DDLEvent`s one by one in log order, a COMMIT after each transaction, and need no
    ordinals: the emitter counts. Rows of tables that are not in the reader's definition may be emitted too; they are counted
    and dropped.
    """

    @abstractmethod
    def emit(self, event: DDLEvent | DMLEvent) -> None:
        """Emits one event.

        Raises:
            ReaderClosed: When the reader is to stop.
        """

    @abstractmethod
    def emit_batch(self, batch: ChangeBatch) -> None:
        """Emits changes of one table; they belong to the emitter from now on.

        Raises:
            ReaderClosed: When the reader is to stop.
        """

    @abstractmethod
    def emit_commits(self, commits: Commits) -> None:
        """End the window: all its events are committed at the source. May hold no events at all: a heartbeat, or the begin
        of a transaction that contains a DDL event (see the class).

        Raises:
            ReaderClosed: When the reader is to stop.
        """


class EventReader(ABC):
    """Reads one source's log from an offset on. One thread calls `run`; `close` comes from another."""

    @abstractmethod
    def initialize(self, offset: Offset | None) -> Offset:
        """Prepare to read after `offset`; called once, before `run`.

        Args:
            offset: Where to go on; None for the first start, when the reader makes the log available from now on
                (creates a slot, say) and changes nothing that already is there.

        Returns:
            The offset reading will start after; equal to `offset` unless that was None.

        Raises:
            HistoryLostError: When the log after `offset` is no longer there. Never start elsewhere instead.
            NeedsUserError: When rights or settings are missing.
        """

    def begin_at(self, offset: Offset, tables: Sequence[TableSchema]) -> Mapping[TableId, TableSchema]:
        """Prepare to read after `offset`, an earlier position of the log; called once, before `run` and instead of `initialize`.

        Only for sources with `DeltaSource.starts_from`, at the first start of a pipeline. A start that is cut off is repeated, with
        this offset or another one, or with `initialize(None)`. The offset is saved after it; a later start is given it by `initialize`.

        Args:
            offset: What `DeltaSource.find_start` returned.
            tables: The captured tables as they are now, with the selected columns.

        Returns:
            Each of them as it was at `offset`: all its columns, or the selected ones where the definition narrows it. Changes after
            `offset` are decoded with them, and every change of structure after it is emitted.

        Raises:
            HistoryLostError: As `initialize`.
            NeedsUserError: Of one of the tables (`table`) where the log after `offset` does not have all changes of it, or where its
                columns there are not known. They are never guessed. What the source had before is unchanged then.
        """
        raise NotImplementedError("a source with `starts_from` begins at earlier positions")

    def capture(self, tables: Sequence[TableSchema]) -> None:
        """Make sure that changes of `tables` are in the log from now on; idempotent. Called before `run` and, for a
        table that joins later, between runs; before the table's snapshot is opened.

        Raises:
            NeedsUserError: When it may not, or when capturing a table would harm the application, for example by making its updates fail.
        """

    @abstractmethod
    def run(self) -> None:
        """Read and emit until `close` or an error; everything it raises leads to a reset (or the end, by type)."""

    @abstractmethod
    def close(self) -> None:
        """Make `run` return soon and release connections; idempotent, from any thread, also before `run`."""


class DeltaSource(NamesDatasets, ABC, Generic[ConfigT_co]):
    """Describes a source and creates its parts. Holds no connection itself, so that it is cheap to create.

    Generic over its settings: in a subclass of `DeltaSource[MyConfig]`, `self.config` is a `MyConfig` for the type checker.
    Without the type argument it is a `PluginConfig`.

    Class attributes:
        name: The plugin's name in the pipeline JSON.
        title: One line for lists.
        config_type: Its settings model.
        offset_type: Its offset.
        unseen_ddl: The changes of structure that its log does not show, so that it never emits them.
        marks_refused: Whether its readers follow `EventReaderDefinition.marks_refused`; otherwise a pipeline with `onDataError` other
            than `fail` is refused.
        filters_snapshots: Whether its snapshots follow `EventReaderDefinition.conditions`; without it, a pipeline with a
            condition is refused.
        starts_from: By what `find_start` finds a position of its log, where a first start may begin that copies no rows
            (`EventReader.begin_at`); a pipeline with another `snapshot.from` is refused.
    """

    plugin_type: ClassVar[str] = PLUGIN_TYPE_SOURCE
    name: ClassVar[str]
    title: ClassVar[str] = ""
    config_type: ClassVar[type[PluginConfig]]
    offset_type: ClassVar[type[Offset]]
    unseen_ddl: ClassVar[frozenset[DDLOperation]] = frozenset(
        {DDLOperation.CREATE_DATABASE, DDLOperation.DROP_DATABASE}
    )
    marks_refused: ClassVar[bool] = False
    filters_snapshots: ClassVar[bool] = False
    starts_from: ClassVar[frozenset[Literal["offset", "time"]]] = frozenset()

    def __init__(self, config: ConfigT_co) -> None:
        self.config = config

    def configure(self, configurer: Configurer) -> None:
        """Say what a run needs and what is wrong with the settings; connects to nothing."""

    @abstractmethod
    def identity(self) -> str:
        """The source's lasting identity (Postgres: system identifier and database), so that saved state is never used with another source.

        Raises:
            RetryableError: When it cannot be reached now.
            NeedsUserError: When it refuses.
        """

    @abstractmethod
    def latest_offset(self) -> Offset:
        """An offset at or after every transaction committed before the call; the reader reaches it without any
        further change at the source.
        """

    def find_start(self, start: StartFrom, *, namespace: str, name: str) -> Offset:
        """Find a position of the log between two transactions; changes nothing at the source. For runs, plans and assessments.

        Called only with what is in `starts_from`. By a time it finds the position before the first transaction that was committed
        then or later, which is the log's end where none was.

        Args:
            start: The position.
            namespace: The replicator's namespace.
            name: The replicator's name.

        Raises:
            NeedsUserError: When `start` is no position of this source, is later than the log's end, or is a moment that has not come;
                with a next step.
            HistoryLostError: When the log after it is not there any more, or was never there.
            ReplicatorError: When the source cannot be asked.
        """
        raise NotImplementedError("a source with `starts_from` finds positions")

    def health(
        self,
        offset: Offset | None,  # noqa: ARG002 - for overriders
        *,
        namespace: str,  # noqa: ARG002 - for overriders
        name: str,  # noqa: ARG002 - for overriders
    ) -> SourceHealth | None:
        """Ask the source how it is; None, the default, when it cannot be asked.

        Called every few seconds beside a run, in a thread of its own: it uses its own connection, changes nothing, costs the source little,
        and may block. While it does not return, or raises, the run takes the source for one that does not answer.

        Args:
            offset: The offset that was saved last; None before the first.
            namespace: The replicator's namespace.
            name: The replicator's name.

        Raises:
            ReplicatorError: When the source cannot be reached, or refuses.
        """
        return None

    def create_health_probe(
        self,
        *,
        namespace: str,  # noqa: ARG002 - for overriders
        name: str,  # noqa: ARG002 - for overriders
    ) -> HealthProbe | None:
        """What a run asks instead of `health`; for sources where a connection is too costly to make for every answer.

        Called once a run, which closes it. None, the default, where `health` is called each time. A source that overrides it also
        overrides `health`, which says the same.

        Args:
            namespace: The replicator's namespace.
            name: The replicator's name.
        """
        return None

    @abstractmethod
    def create_table_registry(self) -> TableRegistry:
        """A reader of the catalogue; the caller closes it."""

    def create_table_assessor(self) -> TableAssessor:
        """A judge of source and tables; the caller closes it."""
        return AcceptingAssessor()

    def check_log(self, offset: Offset, *, namespace: str, name: str) -> None:
        """Check that a run could go on after `offset`, as far as that shows without changing or reading anything; for assessments.

        A source that does not override it finds nothing. A run may be at work meanwhile, and have gone on from `offset`: what is
        found then is looked at again with that run's newer offset.

        Args:
            offset: Where the next run goes on.
            namespace: The replicator's namespace.
            name: The replicator's name.

        Raises:
            HistoryLostError: When the log after `offset` is no longer there.
            ReplicatorError: What else `EventReader.initialize` would raise.
        """

    def check_log_of_tables(
        self,
        offset: Offset,
        definition: EventReaderDefinition,  # noqa: ARG002 - for overriders
        *,
        namespace: str,
        name: str,
    ) -> None:
        """As `check_log`, with the tables that a run would read.

        A source whose log can be lost for single tables overrides it. It raises the error of one of them, with `table`; the
        assessment calls it again with that table among `definition.stopped`, so that the others' errors are found, too.

        Raises:
            ReplicatorError: As `check_log`; with `table` where a run would stop that table only.
        """
        self.check_log(offset, namespace=namespace, name=name)

    def check_state(self, offset: Offset, stored: StoredState) -> None:
        """Check that what this source has kept in state reaches back to `offset`; before a rewind. Connects to nothing, changes nothing.

        A source that forgets what only older offsets need, or begins it at a later offset, overrides it. By default nothing is found.

        Args:
            offset: Where the log is to be read from again.
            stored: What the replicator has stored of this source.

        Raises:
            HistoryLostError: When a reader could not go on from `offset`.
        """

    def create_clean_up(
        self,
        *,
        namespace: str,  # noqa: ARG002 - for overriders
        name: str,  # noqa: ARG002 - for overriders
        stored: Sequence[StoredState],  # noqa: ARG002 - for overriders
    ) -> SourceCleanUp | None:
        """What removes the replicator's own things from the source, for `replicator delete`; connects to nothing.

        None, the default, when the source does not say what it leaves: nothing is removed then.

        Args:
            namespace: The replicator's namespace.
            name: The replicator's name.
            stored: What its generations have stored, newest first; empty when nothing is stored.
        """
        return None

    @abstractmethod
    def create_reader(
        self, definition: EventReaderDefinition, context: DeltaSourceContext, emitter: EventEmitter
    ) -> EventReader:
        """A reader; called at each start and each reset. The one before is closed first."""

    def create_snapshot_reader(
        self,
        definition: EventReaderDefinition,  # noqa: ARG002 - for overriders
        context: DeltaSourceContext,  # noqa: ARG002 - for overriders
    ) -> SnapshotReader | None:
        """A reader of snapshots; None when the event reader emits snapshot events by itself (`is_snapshot`)."""
        return None

    def sample_rows(
        self,
        definition: EventReaderDefinition,  # noqa: ARG002 - for overriders
        table: TableId,  # noqa: ARG002 - for overriders
        rows: int,  # noqa: ARG002 - for overriders
    ) -> pa.RecordBatch | None:
        """A few rows of a table as a snapshot has them; None when the source reads no rows but by a log.

        Asked without a run and without state: it leaves nothing at the server, takes no lock that writers wait for, and reads
        one batch at most. Which rows it returns is not defined.

        Args:
            definition: Has the table with its selected columns, and the condition of its rows.
            table: One of the definition's tables.
            rows: How many at most.

        Raises:
            ReplicatorError: When the table cannot be read, or a value is one that a snapshot refuses.
        """
        return None

    def create_distributed_log(
        self,
        definition: EventReaderDefinition,  # noqa: ARG002 - for overriders
        context: DeltaSourceContext,  # noqa: ARG002 - for overriders
    ) -> DistributedLog | None:
        """The log as slices that executors read; None when it has to be read in one stream by `create_reader`.

        Asked only of sources without a snapshot reader, and when the target applies slices (`RangeConsumer`). The caller
        closes it.
        """
        return None
