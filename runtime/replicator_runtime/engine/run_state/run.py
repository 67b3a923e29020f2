"""What all parts of one run share: settings, state, lease, saved offset, table store, Spark."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.retry_budget import TableRetryBudgets
from replicator_runtime.engine.tables.last_positions import LastPositions
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_sdk.failpoint import failpoint, register
from replicator_state import SavedOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from replicator_runtime.config import Pipeline, PipelineConfig
    from replicator_runtime.engine.run_state.progress import Progress
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_runtime.observability.lineage import Lineage
    from replicator_runtime.observability.metrics import MetricsRegistry
    from replicator_sdk import Offset, TableId
    from replicator_state import Lease, OffsetStore, StateStore

log = structlog.get_logger()
register("engine.offset.before_save", "engine.offset.after_save")


@dataclass(frozen=True, slots=True)
class Limits:
    """When gathered changes are applied, and how much is held meanwhile.

    Attributes:
        max_rows: Changes in a batch, about; a transaction is never split.
        max_bytes: Bytes in a batch, about.
        max_interval_seconds: Longest time changes wait for more.
        queue_bytes: Bytes between reader and apply.
        spill_bytes: An open transaction larger than this is written to disk.
        parallel_tables: Tables snapshotted or applied at once.
    """

    max_rows: int
    max_bytes: int
    max_interval_seconds: float
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
    """One run of one pipeline. Its saved offset only moves forward; safe from any thread.

    Attributes:
        stop: Set when the run is to end; everything that waits checks it.
        saved_offset: What is durable at target and state; None before the first save.
        committed_offset: What the source may acknowledge: the save *before* the last one, so that a run can still start
            from it when the newest offset file is damaged. None until this run has saved once.
        saved_sequence: The sequence number there.
        source_error: What the source reported last; None when it is fine.
        retried_error: What ended the last attempt; shown while the run waits for and begins the next one.
        identified: Whether the source was found to be the one the state belongs to.
        failing: Tables that have stopped until the next start, and why.
        retries: When tables that failed for a while are tried again, on this process's clock.
        attempt_began: When this attempt began, on the same clock.
        absent: Tables named in the pipeline that the source did not have when this attempt began, and their errors.
        takes_snapshots: Whether the engine copies the source's tables; known once an attempt has begun.
        settled_watermarks: Left by an attempt that ended so that other tables can join; the next attempt takes them.
    """

    pipeline: Pipeline
    progress: Progress
    stop: threading.Event
    run_id: str
    generation: int
    epoch: int
    offsets: OffsetStore
    store: StateStore
    lease: Lease
    metrics: MetricsRegistry
    lineage: Lineage
    limits: Limits
    saved_offset: Offset | None = None
    saved_sequence: int = 0
    committed_offset: Offset | None = None
    source_error: Exception | None = None
    retried_error: Exception | None = None
    identified: bool = False
    failing: dict[TableId, Exception] = field(default_factory=dict)
    retries: dict[TableId, float] = field(default_factory=dict)
    attempt_began: float = 0.0
    absent: dict[TableId, Exception] = field(default_factory=dict)
    takes_snapshots: bool = True
    settled_watermarks: dict[TableId, TableWatermark] = field(default_factory=dict)
    table_store: TableStore = field(init=False)
    positions: LastPositions = field(init=False)
    table_retry_budgets: TableRetryBudgets = field(init=False)
    _spark: SparkSession | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.table_store = TableStore(self.store, self.read_offset)
        self.positions = LastPositions(self.store, self.read_offset)
        self.table_retry_budgets = TableRetryBudgets(self.config.retries)

    @property
    def config(self) -> PipelineConfig:
        """The pipeline's settings."""
        return self.pipeline.config

    def read_offset(self, fields: Mapping[str, bytes]) -> Offset:
        """The source's offset that these fields stored."""
        return self.pipeline.source.offset_type.from_fields(fields)

    def load_offset(self) -> None:
        """Read the offset saved last, by an earlier run or attempt."""
        saved = self.offsets.latest()
        if saved is not None:
            self.saved_offset, self.saved_sequence = self.read_offset(saved.fields), saved.sequence_number

    def save_offset(self, offset: Offset, sequence_number: int) -> None:
        """Save `offset`, durable when this returns. One that does not go forward is ignored.

        Raises:
            FencedError: When a newer run has taken over.
        """
        with self._lock:
            if self.saved_offset is not None and not self.saved_offset < offset:
                return
            self.lease.check()
            failpoint("engine.offset.before_save")
            self.offsets.save(SavedOffset(sequence_number, offset.fields(), datetime.now(UTC)))
            self.committed_offset = self.saved_offset
            self.saved_offset, self.saved_sequence = offset, sequence_number
            failpoint("engine.offset.after_save")

    def set_failing(self, table: TableId, error: Exception) -> None:
        """Stop `table` until the next start of the run."""
        self.failing[table] = error

    def spark(self) -> SparkSession:
        """The run's Spark session, started at the first call."""
        with self._lock:
            if self._spark is None:
                from replicator_runtime.spark.session import build_session

                self._spark = build_session(
                    self.config.name,
                    master=self.config.spark.master,
                    conf={**self.pipeline.spark.conf, **self.config.spark.conf},
                    packages=self.pipeline.spark.packages,
                    cores=self.config.resources.vcores,
                    memory_mb=self.config.resources.memory_mb,
                )
            return self._spark

    def spark_is_dead(self) -> bool:
        """Whether the session's Java virtual machine has ended: what fails then is not the fault of one table."""
        if self._spark is None:
            return False
        from replicator_runtime.spark.session import is_dead

        return is_dead(self._spark)

    def drop_dead_spark(self) -> bool:
        """Forget a session whose Java virtual machine has ended, so that the next attempt starts one; returns whether it had."""
        with self._lock:
            if not self.spark_is_dead():
                return False
            log.warning("spark.restart")
            self.stop_spark()
            return True

    def stop_spark(self) -> None:
        """Stop the session, if there is one."""
        with self._lock:
            if self._spark is not None:
                from replicator_runtime.spark.session import stop_session

                stop_session(self._spark)
                self._spark = None
