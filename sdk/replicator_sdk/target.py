"""The contract of a target: what a target plugin implements and what the runtime promises it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import pyarrow as pa

from replicator_sdk.authoring.stored_form import check_form, release
from replicator_sdk.batch import BatchIdentity, ChangeBatch, Refusal, TableChanges
from replicator_sdk.config import ConfigT_co, PluginConfig
from replicator_sdk.context import Configurer, DeltaTargetContext
from replicator_sdk.discovery.assessment import AcceptingAssessor, TableAssessor
from replicator_sdk.discovery.dataset import NamesTargetDatasets
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.distributed.counted import Counted
from replicator_sdk.event import DDLEvent, DMLEvent
from replicator_sdk.offset import Offset, Position, offset_to_json
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLUGIN_TYPE_TARGET = "cdcTarget"
PROGRESS_FORM = 1
"""Of a stored `TableProgress`; higher in a release whose progress an earlier one would misread."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """What a table's own last commit says of itself; written in the same commit as the data.

    Attributes:
        generation: The replicator's generation that wrote it.
        epoch: The lease epoch that wrote it; a lower epoch must not write again, since its run was replaced.
        position: How far the table has come.
        last_sequence: Sequence number of the last change in it; for people, never compared across generations.
        batch: The batch's identity as text.
        snapshot_chunks: Indexes of the snapshot chunks loaded so far; None once the snapshot is finished.
        snapshot_id: Which plan those chunks belong to; empty when none.
        valid_through: Every change that the source committed up to then is in the table; microseconds since 1970 UTC, -1 unknown.
        snapshot_rows: How many rows the chunks of that plan had when they were loaded.
        counted: What is counted of the table with the slice applied last (`SliceChanges.progress`); None where none was.
        replaced: Whether a target that stores this apart from the rows has found another table in its place, with rows of another time. Never stored.
    """

    generation: int
    epoch: int
    position: Position
    last_sequence: int = 0
    batch: str = ""
    snapshot_chunks: frozenset[int] | None = None
    snapshot_id: str = ""
    valid_through: int = -1
    snapshot_rows: int = 0
    counted: Counted | None = None
    replaced: bool = False

    @classmethod
    def of(cls, identity: BatchIdentity) -> TableProgress:
        """The progress to store with a batch."""
        return cls(identity.generation, identity.epoch, identity.position, identity.last_sequence, str(identity))

    def to_json(self) -> dict[str, Any]:
        """The JSON form a target stores."""
        return {
            "form": PROGRESS_FORM,
            "release": release(),
            "generation": self.generation,
            "epoch": self.epoch,
            "offset": offset_to_json(self.position.offset),
            "position": str(self.position),
            "eventsAfter": self.position.events_after,
            "sequence": self.last_sequence,
            "batch": self.batch,
            "snapshotChunks": None if self.snapshot_chunks is None else sorted(self.snapshot_chunks),
            "snapshotId": self.snapshot_id,
            "validThrough": self.valid_through,
            "snapshotRows": self.snapshot_rows,
            "counted": self.counted and self.counted.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> TableProgress:
        """The inverse of `to_json`; `read_offset` is `DeltaTargetContext.read_offset`.

        Raises:
            NeedsUserError: RPL-7161 when a later release stored it in a form that this one does not know.
        """
        check_form("the target table's progress", value.get("form", 1), PROGRESS_FORM, value.get("release", ""))
        chunks, counted = value.get("snapshotChunks"), value.get("counted")
        loaded = None if chunks is None else frozenset(chunks)
        plan = (loaded, value.get("snapshotId", ""), value.get("validThrough", -1), value.get("snapshotRows", 0))
        done = (value["epoch"], Position.from_json(value, read_offset), value["sequence"], value["batch"])
        return cls(value["generation"], *done, *plan, Counted.from_json(counted) if counted else None)


class EventConsumer(ABC):
    """Applies events at the target. All of it idempotent: after a failure the same events arrive again.

    Called by the runtime's apply thread only. Every exception resets the replicator to the last saved offset and replays, except by
    error type (see `replicator_sdk.errors`).

    Class attributes:
        follows_databases: Whether `apply_ddl` takes CREATE_DATABASE and DROP_DATABASE; otherwise the runtime sends none.
    """

    follows_databases: ClassVar[bool] = False

    def start(self) -> None:
        """Prepare; called once before anything else."""

    @abstractmethod
    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply one change of structure; durable when it returns. A table that is there already is no error.

        A target that stores progress commits `event.position` with it, and does nothing when it has that position already.
        A RENAME_TABLE comes only where `can_rename` allows it, before any other call for either table, and again after a
        crash. Tables that exchange their names come as several, one of them to a name of the runtime's own first.

        A CREATE_DATABASE or DROP_DATABASE comes only where `follows_databases` is true. It may come again at any replay, also
        when later events are applied: creating what exists and dropping what does not exist do nothing, and a database
        that holds a table, of whomever, is never dropped. Its tables are dropped by DROP_TABLEs before.

        Raises:
            FencedError: When the table was written by a higher epoch; nothing is changed then.
            SchemaDriftError: When the target cannot follow; the table is copied again once a person has decided so.
            SnapshotNeededError: When the target cannot follow a RENAME_TABLE: the runtime copies the table under its new name.
        """

    def can_rename(self, former: TableId, table: TableId) -> bool:  # noqa: ARG002 - for those that can
        """Whether `apply_ddl` takes a RENAME_TABLE of `former` to `table`; answered from settings, without a request.

        Otherwise the runtime sends none: it copies the table under its new name, and the table of the former name stays.
        """
        return False

    def discard_table(self, table: TableId) -> None:
        """Delete a table of this replicator with its rows, whatever the settings say of dropped tables; idempotent.

        Called for tables only that the runtime itself put aside by a RENAME_TABLE and that nothing renames any more. A
        table of another writer is left as it is. A target that renames no tables is not called.
        """

    def delete_table(self, table: TableId) -> str:  # noqa: ARG002 - for those that can
        """Delete a table of this replicator with its rows, whatever the settings say of dropped tables; for `replicator delete`.

        Idempotent, also after a call that was cut off. No run goes on, and nothing else is asked of this consumer for the table.
        A table of another writer, or that no replicator wrote, is left as it is. Targets that do not override it leave all tables.

        Returns:
            Why the table stays; empty when it is not at the target any more.

        Raises:
            FencedError: When the table was written by a higher epoch; nothing is deleted then.
        """
        return "the target's plugin cannot delete tables"

    @abstractmethod
    def apply_dml(self, event: DMLEvent) -> None:
        """Take one change, or a COMMIT; may hold it back until `flush`."""

    def flush(self) -> None:
        """Make everything taken so far durable; called at commit boundaries, before the offset is saved."""

    @abstractmethod
    def stop(self) -> None:
        """Release everything; what was not flushed is dropped and comes again. May be called twice."""


class BatchConsumer(EventConsumer):
    """Optional capability: applies a table's changes at once, each table atomically with its own progress.

    The runtime calls `apply_batch` for different tables from several threads at once, and `apply_ddl` of one table
    never beside that table's `apply_batch`. `apply_dml` is not used.

    Class attributes:
        keeps_unmatched: Whether it takes `TableChanges.unordered`. A removal of a row that is not there is then stored with
            the table, in the commit of its batch, and takes the next insert of an equal row away. What is stored follows
            changes of structure and renames, and is dropped with the table's rows when it is created or copied again;
            a TRUNCATE keeps it, since a row's insert and its removal are on the same side of it. Otherwise the runtime
            stops a table with such changes.
    """

    keeps_unmatched: ClassVar[bool] = False

    def find_refused(self, batch: ChangeBatch) -> Mapping[str, Refusal]:  # noqa: ARG002 - for those that can
        """Which values of `batch.row` this target does not hold, by column, never of the key; found once `apply_batch` raised a `DataError`."""
        return {}

    @abstractmethod
    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's own last commit says, read from the target; None exactly when it has no such table. Of a dropped one that it keeps, the DROP_TABLE's position.

        Raises:
            NeedsUserError: When a table of that name is there that this replicator did not write.
        """

    @abstractmethod
    def apply_batch(self, changes: TableChanges) -> None:
        """Apply all changes and store `TableProgress.of(changes.identity)` in one atomic commit; durable on return.

        Does nothing when the table is already at `changes.identity.position` or later.

        Raises:
            FencedError: When the table was written by a higher epoch; nothing is changed then.
            DataError: When a value does not fit.
        """

    def apply_dml(self, event: DMLEvent) -> None:
        """Not used for batch consumers."""
        raise NotImplementedError("a batch consumer takes apply_batch")


@dataclass(frozen=True, slots=True)
class EarlierVersion:
    """A version that a table can go back to, as `RewindableConsumer.find_version` finds it.

    Attributes:
        name: The version, for people.
        progress: What the version says of the table; None when it held no table at that position.
        following: What the commit after it says.
        rows_now: How many rows the table has; None where that is not known without counting.
        rows_then: How many rows the version has; None as above.
    """

    name: str
    progress: TableProgress | None
    following: TableProgress
    rows_now: int | None = None
    rows_then: int | None = None


class RewindableConsumer(BatchConsumer):
    """Optional capability: brings tables back to versions of before. The runtime calls it while no run goes on, for several tables at once."""

    @abstractmethod
    def find_version(self, table: TableId, position: Position) -> EarlierVersion | None:
        """The newest version of which the progress is not after `position`; every later version is after it. Changes nothing.

        Returns:
            None when the table itself is not after `position`, or there is no such table.

        Raises:
            FencedError: When the table was written by a higher epoch.
            NeedsUserError: When versions or files were deleted that are needed, or the table had another name then.
        """

    @abstractmethod
    def rewind_table(self, table: TableId, position: Position) -> TableProgress | None:
        """Bring rows, columns and progress of that version back, in one atomic commit; durable when it returns.

        The commit's epoch is this run's, so that no older run can write after it. A table that is not after `position` stays as
        it is, so that a second call does nothing.

        Returns:
            What the table says of itself now; None when there is no such table.

        Raises:
            FencedError: When the table was written by a higher epoch; nothing is changed then.
            NeedsUserError: As `find_version`; nothing is changed then.
        """


class DeferredConsumer(BatchConsumer):
    """Optional capability: takes changes well ahead of the commit that makes them durable.

    `apply_batch` may return when the changes are taken, somewhere where they do no harm if they are never looked at
    again. Commits follow in the consumer's own time and own threads, for each table in order and with the progress of
    the last batch they hold. The runtime saves no offset, and raises no table's position, beyond what `settled` says;
    after a crash it replays from there. So what was taken and not committed must have no effect on a table, ever.

    The runtime calls `settle` for a table before each `apply_ddl` of it, and for all before a run ends, tables join, or maintenance holds applies.
    Of a table with rows put aside it does so before each batch, in the thread that applies.
    """

    @abstractmethod
    def settled(self, table: TableId) -> Position | None:
        """The position of the last batch of `table` that is durable; None when none is since this consumer was made.

        Called several times a second while the table has unsettled changes, so it sends no request; a consumer that
        commits by the clock may begin to here.

        Raises:
            ReplicatorError: Why the table's commit failed. What it held is dropped, the consumer takes no more changes
                of the table, and they come again to another consumer.
        """

    @abstractmethod
    def settle(self, tables: Collection[TableId]) -> None:
        """Commit everything taken of these tables; returns when no commit of theirs is wanted or under way.

        Raises nothing for a commit that fails: `settled` does.
        """


class SnapshotLoader(ABC):
    """Optional capability of a `BatchConsumer`: loads snapshot chunks in parallel, without the rows passing the driver.

    Several tables may load at once, from several threads; calls for one table come one after another. A plan without chunks
    is one too: where the source takes no snapshots, the runtime empties the tables of a former generation by it.
    """

    @abstractmethod
    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready to take the chunks of the plan `snapshot_id`.

        A table that holds chunks of the same `snapshot_id` is kept; any other content this replicator wrote is
        removed, so that rows deleted meanwhile at the source do not stay.

        Returns:
            Indexes of the chunks already loaded, as stored with the data; all of them when that plan is finished. A
            target keeps them until another plan begins or changes are applied (`TableRecord.chunks` does), beside
            `TableProgress.snapshot_chunks`, which is None then.
        """

    @abstractmethod
    def load_chunks(
        self, schema: TableSchema, snapshot_id: str, chunks: Sequence[SnapshotChunk], read: ChunkReader
    ) -> int:
        """Load `chunks` in one atomic commit that also stores indexes and number of rows (`TableProgress`); returns how many rows.

        A chunk that is already stored as loaded is skipped.
        """

    @abstractmethod
    def finish_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> None:
        """All chunks are loaded: the table is at `position` from now on and takes changes. Idempotent."""

    def discard_snapshot(self, table: TableId, snapshot_id: str) -> None:
        """Delete what the unfinished plan `snapshot_id` left that no reader of the table sees; idempotent.

        Called for a plan that no run resumes, such as of a table that the source has dropped. Chunks that were committed
        stay as they are. The table may be this replicator's, another's, or not exist; another plan of it may be loading
        meanwhile. So a target deletes only what it knows, by name, as of that plan. By default nothing is deleted.
        """

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Load all chunks of a new plan and finish it; returns the number of rows loaded.

        The engine calls it for small tables in place of the three methods above, which this calls by default. A target that overrides it may
        do so in one commit; what the table had before stays until then. An interrupted call is followed by `begin_snapshot` with the same plan,
        or by another plan. With `DeltaTarget.copies_beside` it is called for large tables, too: readers see nothing of the plan before that
        commit, which no superseded run can make.

        Args:
            schema: The table's schema at `position`.
            snapshot_id: The plan, of which the table has nothing.
            position: Where the table is when all chunks are loaded.
            chunks: All chunks of the plan.
            read: Reads a chunk.
            all_read: To be called once, when all rows were read and before the table is whole.
        """
        self.begin_snapshot(schema, snapshot_id, position)
        rows = self.load_chunks(schema, snapshot_id, chunks, read)
        all_read()
        self.finish_snapshot(schema, snapshot_id, position)
        return rows


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of a target's table, to be compared with the source; later commits do not change what is read.

    Attributes:
        name: The version, as the target's people write it.
        progress: What the commit of that version says.
        form: The Arrow type in which the target keeps each column of the schema, in its order; the source's rows are cast to
            it, exactly, before they are compared.
        rows: The rows that the source has as far as the target knows, none that is marked as deleted: the schema's columns in
            its order and in `form`, and after them one more that differs whenever a row was written again, whatever its
            values, and that is the same as long as it was not; NULL where the target does not know.
    """

    name: str
    progress: TableProgress
    form: pa.Schema
    rows: DataFrame


class TableReader(ABC):
    """Reads the target's tables beside the run that writes them, in one thread; writes nothing and keeps no one from writing."""

    @abstractmethod
    def progress(self, table: TableId) -> TableProgress | None:
        """What the table's newest commit says; None when there is no table of that name.

        Raises:
            NeedsUserError: When a table of that name exists that this replicator did not write.
        """

    @abstractmethod
    def open(self, schema: TableSchema) -> TableVersion:
        """The newest version of a table.

        Args:
            schema: The columns to read.

        Raises:
            NeedsUserError: When there is no such table, or this replicator did not write it.
            SchemaDriftError: When it has other columns or types than `schema`.
        """


class DeltaTarget(NamesTargetDatasets, ABC, Generic[ConfigT_co]):
    """Describes a target and creates its parts. Holds no connection itself, so that it is cheap to create.

    Generic over its settings: in a subclass of `DeltaTarget[MyConfig]`, `self.config` is a `MyConfig` for the type checker.
    Without the type argument it is a `PluginConfig`.

    Class attributes:
        name: The plugin's name in the pipeline JSON.
        title: One line for lists.
        config_type: Its settings model.
        copies_beside: Whether `load_whole` of its consumers takes tables of any size in one commit, as `table resync` without --in-place needs.
        copies_other_columns_beside: Whether it does so where the table has kept columns that the source has dropped.
        takes_lane: Whether `onDataError: lane` may be set: its consumers are `SnapshotLoader`s. A `DeferredConsumer` then commits each batch of a table of which rows were put aside.
    """

    plugin_type: ClassVar[str] = PLUGIN_TYPE_TARGET
    name: ClassVar[str]
    title: ClassVar[str] = ""
    config_type: ClassVar[type[PluginConfig]]
    takes_lane: ClassVar[bool] = False
    copies_beside: bool = False
    copies_other_columns_beside: ClassVar[bool] = True

    def __init__(self, config: ConfigT_co) -> None:
        self.config = config

    def configure(self, configurer: Configurer) -> None:
        """Say what a run needs (Spark packages and settings) and what is wrong; connects to nothing."""

    def create_table_assessor(self) -> TableAssessor:
        """A judge of target and tables; the caller closes it."""
        return AcceptingAssessor()

    @abstractmethod
    def create_consumer(self, context: DeltaTargetContext) -> EventConsumer:
        """A consumer; called at each start and each reset. The one before is stopped first.

        A target whose consumers are `SnapshotLoader`s is asked for another one for each table that is to be copied, in
        any thread. It only loads that table's snapshot, is stopped when the copy ends, and not at a reset, so that a long copy
        goes on. Consumers of one run have the same epoch and live side by side, but never work on one table at once.
        """

    def create_table_reader(self, context: DeltaTargetContext) -> TableReader | None:  # noqa: ARG002 - for overriders
        """A reader of this replicator's tables, for comparisons with the source; None where the target has none.

        It reads beside a run, so the context's epoch is no one's, and what is stored by it is dropped.
        """
        return None

    @property
    def maintenance_tasks(self) -> Sequence[MaintenanceTask]:
        """The maintenance that each table needs; the runtime stores when which table had it, also between runs.

        The default has one task, `maintain`, for targets that override that method and `maintenance_interval_seconds`.
        """
        interval = self.maintenance_interval_seconds
        return (MaintenanceTask("maintain", interval),) if interval > 0 else ()

    def maintain_table(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        """Do one step of `task`, one of `maintenance_tasks`, for `table`.

        A step takes a few seconds at most, since changes of the table wait meanwhile and a run that is to end waits for it;
        one that takes longer ends early when `context.is_stopping`. Called in a thread of the runtime's, one step at a time,
        beside applies as far as `task.holds` says, and also where no consumer was made. A step that is cut off or repeated
        must do no harm.

        Raises:
            FencedError: When a newer run has taken the table over; this run ends.
            Exception: Anything else concerns this task of this table only, and is tried again after a growing delay.
        """
        del task
        self.maintain(context, [table])
        return MaintenanceReport()

    def maintain(self, context: DeltaTargetContext, tables: Sequence[TableId]) -> None:
        """Maintenance as one task without steps; kept for targets that have not `maintenance_tasks` yet.

        Never called beside an apply of the same tables, and with one table at a time.
        """

    @property
    def maintenance_interval_seconds(self) -> float:
        """How often `maintain` is wanted; 0 for never."""
        return 0.0
