"""What all parts of one run share: its identity, its settings and stores, the saved offset, Spark."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.counting.change_totals import ChangeTotals
from replicator_runtime.engine.letters.dead_letters import DeadLetters
from replicator_runtime.engine.letters.known_runs import KnownRuns
from replicator_runtime.engine.run_state.error_policy import fit_next_step
from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_runtime.engine.tables.archiving import NoArchive
from replicator_runtime.engine.tables.table_file import TOGETHER
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_runtime.observability.metrics import FAILURES
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.timeline import step
from replicator_state import SavedOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.config import Pipeline, PipelineConfig
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.tables.archiving import Archiving
    from replicator_runtime.freshness.measurement import Measurement
    from replicator_runtime.observability.lineage import Lineage
    from replicator_runtime.observability.metrics import MetricsRegistry
    from replicator_sdk import Offset, TableId
    from replicator_state import LaneFolder, Lease, OffsetStore, ReplicatorDirectory, RequestFolder, StateStore

log = structlog.get_logger()
register("engine.offset.before_save", "engine.offset.after_save", "engine.offset.set_back")


@dataclass(frozen=True, slots=True)
class Limits:
    """When gathered changes are applied, and how much is held meanwhile.

    Attributes:
        max_rows: Changes in a batch, about; a transaction is never split.
        max_bytes: Bytes in a batch, about.
        max_interval_seconds: Longest time changes wait for more; None to follow how many come.
        queue_bytes: Bytes between reader and apply.
        spill_bytes: An open transaction larger than this is written to disk.
        parallel_tables: Tables snapshotted or applied at once.
    """

    max_rows: int
    max_bytes: int
    max_interval_seconds: float | None
    queue_bytes: int
    spill_bytes: int
    parallel_tables: int

    @classmethod
    def of(cls, config: PipelineConfig) -> Limits:
        """The pipeline's limits; queue and spill follow from the batch's bytes."""
        batch = config.batch
        held = max(1 << 20, batch.max_bytes // 4)
        return cls(batch.max_rows, batch.max_bytes, batch.max_interval_seconds, held, held, config.parallelism.tables)


@dataclass(slots=True)
class Run:
    """One run of one pipeline: its identity, its saved offset, and its Spark session. Safe from any thread.

    The saved offset only moves forward, but for `set_offset_back`. What belongs to each table is in `TableLifecycle`.

    Attributes:
        requests: What operators ask for.
        lanes: The files of changes that paused tables do not take yet.
        letter_files: The files of rows that were put aside.
        archive_stage: The files of changes that are to be archived.
        former: The generations before, and whether the state of those before them was lost; see `ReplicatorDirectory.former`.
        stop: Set when the run is to end; everything that waits checks it.
        requested: Set when operators ask for something: the attempt ends soon, so that it is carried out before the next.
        saved_offset: What is durable at target and state; None before the first save.
        committed_offset: What the source may acknowledge: the save *before* the last one, so that a run can still start
            from it when the newest offset file is damaged. None until this run has saved once.
        saved_sequence: The sequence number there.
        next_slice_at: When the target may be given the next slice, on this process's clock; attempts follow each other sooner.
        late_offsets: Tables that the log still has to keep changes for from before the saved offset, since they are read by themselves.
        expects_more: Whether the source may still emit what was committed before the commits read last (`Commits.more`).
        accepted_copies: The tables that the accepted plan has copied again; None where nothing was planned.
        archive: The change archive; none until the run makes attempts.
        freshness: Measures the tables by their freshness objectives; None where the pipeline has none, or does not run.
        alone: Whether it carries out commands only: what they ask for of tables is done by the next run.
        spark: The Spark session, which starts when a plugin asks for it.
        table_store: What is stored of the tables; their states are changed by `TableLifecycle` only.
        letters: The rows that were put aside.
        totals: Counts what was replicated of each table.
        known_runs: The runs that may have written tables.
    """

    pipeline: Pipeline
    run_id: str
    generation: int
    lease: Lease
    offsets: OffsetStore
    store: StateStore
    requests: RequestFolder
    lanes: LaneFolder
    letter_files: LaneFolder
    archive_stage: LaneFolder
    stop: threading.Event
    progress: Progress
    metrics: MetricsRegistry
    lineage: Lineage
    former: Callable[[], tuple[list[ReplicatorDirectory], bool]] = lambda: ([], False)
    saved_offset: Offset | None = None
    saved_sequence: int = 0
    committed_offset: Offset | None = None
    next_slice_at: float = -math.inf
    late_offsets: Mapping[TableId, Offset] = field(default_factory=dict)
    expects_more: bool = False
    accepted_copies: frozenset[TableId] | None = None
    freshness: Measurement | None = None
    alone: bool = False
    archive: Archiving = field(default_factory=NoArchive)
    requested: threading.Event = field(default_factory=threading.Event)
    spark_begun: InitVar[SparkHandle | None] = None
    spark: SparkHandle = field(init=False)
    table_store: TableStore = field(init=False)
    letters: DeadLetters = field(init=False)
    totals: ChangeTotals = field(init=False)
    known_runs: KnownRuns = field(init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self, spark_begun: SparkHandle | None) -> None:
        self.spark = spark_begun or SparkHandle(self.pipeline)
        self.table_store = TableStore(self.store, self.read_offset)
        self.totals = ChangeTotals(self.store, self.read_offset, self.metrics)
        self.known_runs = KnownRuns(self.store, self.epoch)
        self.letters = DeadLetters(
            self.letter_files, self.config, self.epoch, self.read_offset, self._copy_of, self.metrics, self._kept_of
        )

    @property
    def epoch(self) -> int:
        """The run's number in its generation."""
        return self.lease.epoch

    @property
    def limits(self) -> Limits:
        """The pipeline's limits."""
        return Limits.of(self.config)

    @property
    def config(self) -> PipelineConfig:
        """The pipeline's settings."""
        return self.pipeline.config

    def read_offset(self, fields: Mapping[str, bytes]) -> Offset:
        """The source's offset that these fields stored."""
        return self.pipeline.source.offset_type.from_fields(fields)

    def _copy_of(self, table: TableId) -> str:
        record = self.table_store.records.get(table)
        return "" if record is None else record.copy_id

    def _kept_of(self, table: TableId) -> frozenset[str]:
        record = self.table_store.records.get(table)
        return frozenset() if record is None else frozenset(column.name for column in record.kept_columns)

    def failed(self, table: TableId | None, error: Exception, *, retried_in: float | None = None) -> None:
        """Count a failure: of one table, or of the run as a whole; `retried_in` is the wait before the next try, in seconds.

        The next step of `error` becomes one that the source can do.
        """
        fit_next_step(error, self.pipeline.source)
        code = getattr(error, "code", "")
        self.metrics.count(f"{FAILURES}{code or 'RPL-9015'}", table=table)
        if retried_in is not None:
            self.metrics.count("retries", table=table)
        if table is not None:
            waits = {} if retried_in is None else {"seconds": round(retried_in, 1)}
            log.error("table.failing", table=str(table), code=code, error=summary(error), **waits)

    def rename_tables(self, names: Mapping[TableId, TableId]) -> None:
        """Tables have other names from now on, all at once: what is shown and counted of each goes on under its new name."""
        # Before what may fail or wait for the store: a measurement forgets unknown names.
        if self.freshness is not None:
            self.freshness.rename(names)
        self.progress.rename_tables(names)
        self.totals.rename(names)

    def load_offset(self) -> None:
        """Read the offset saved last, by an earlier run or attempt.

        Raises:
            HistoryLostError: RPL-7125 when a value of the state is older than it.
        """
        saved = self.offsets.latest()
        if saved is not None:
            self.store.check_numbers(saved.values, together=[TOGETHER])
            self.saved_offset, self.saved_sequence = self.read_offset(saved.fields), saved.sequence_number

    def oldest_offset(self) -> Offset | None:
        """The oldest offset that is kept; None before the first save."""
        oldest = self.offsets.oldest()
        return None if oldest is None else self.read_offset(oldest.fields)

    def save_offset(self, offset: Offset, sequence_number: int) -> None:
        """Save `offset`, durable when this returns. One that does not go forward is ignored.

        Raises:
            FencedError: When a newer run has taken over.
        """
        with self._lock:
            if self.saved_offset is not None and not self.saved_offset < offset:
                return
            self.lease.check()
            began = time.monotonic()
            with step("offset.save"):
                self.totals.save()
                failpoint("engine.offset.before_save")
                self.offsets.save(self._to_save(sequence_number, offset.fields()))
            self.metrics.took("save", time.monotonic() - began)
            self.committed_offset = self.saved_offset
            self.saved_offset, self.saved_sequence = offset, sequence_number
            failpoint("engine.offset.after_save")

    def _to_save(self, sequence_number: int, fields: Mapping[str, bytes]) -> SavedOffset:
        return SavedOffset(sequence_number, fields, datetime.now(UTC), values=self.store.numbers())

    def set_offset_back(self, saved: SavedOffset) -> SavedOffset:
        """Save an earlier offset again, durable when this returns; offsets saved after it can be gone back to no more.

        Returns:
            It as it is saved now.

        Raises:
            FencedError: When a newer run has taken over.
        """
        with self._lock:
            self.lease.check()
            stored = self.offsets.save(self._to_save(saved.sequence_number, saved.fields))
            failpoint("engine.offset.set_back")
            self.offsets.forget_between(saved, stored)
            self.saved_offset, self.saved_sequence = self.read_offset(saved.fields), saved.sequence_number
            self.committed_offset = None
        return stored
