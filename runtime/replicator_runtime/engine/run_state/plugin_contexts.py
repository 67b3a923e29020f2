"""The contexts that plugins get, bound to one run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import DeltaSourceContext, DeltaTargetContext, RangeConsumer, StoredState

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import EventReaderDefinition, Offset, TableId
    from replicator_state import ReplicatorDirectory


def source_key(key: str) -> str:
    """Under what the store has what the source kept under `key`."""
    return f"source-{key}"


def stored_by_source(pipeline: Pipeline, directory: ReplicatorDirectory) -> StoredState:
    """What one generation has stored of the source."""

    def offset() -> Offset | None:
        saved = directory.offsets().latest()
        return None if saved is None else pipeline.source.offset_type.from_fields(saved.fields)

    states = directory.states().scoped("runtime")
    return StoredState(offset, lambda key: states.get(source_key(key)))


def kept_by_source(run: Run) -> StoredState:
    """What a run has, and those before it have stored, of the source."""
    return StoredState(lambda: run.saved_offset, lambda key: run.store.get(source_key(key)))


class SourceContext(DeltaSourceContext):
    """The source's context of one run.

    Args:
        run: The run.
        stop: Set when what the reader does is to end before the run; None when it does not.
    """

    def __init__(self, run: Run, stop: threading.Event | None = None) -> None:
        self._run = run
        self._stop = stop
        self.replicator_name, self.namespace = run.config.name, run.config.namespace
        self.generation, self.run_id = run.generation, run.run_id
        self.metrics, self.lineage = run.metrics, run.lineage

    @property
    def is_stopping(self) -> bool:
        """Whether the run, or what this reader does, is to stop."""
        return self._run.stop.is_set() or (self._stop is not None and self._stop.is_set())

    @property
    def longest_wait_seconds(self) -> float:
        """`retries.maxDurationSeconds`: a wait is no progress either."""
        longest = self._run.config.retries.max_duration_seconds
        return math.inf if longest is None else longest

    @property
    def state_was_lost(self) -> bool:
        """Whether this generation, or one before it that has stored nothing, was begun after a lost state."""
        _, was_lost = self._run.former()
        return was_lost

    def former_states(self) -> Sequence[StoredState]:
        """What the generations before stored, back to where the state was lost."""
        return [stored_by_source(self._run.pipeline, one) for one in self._run.former()[0]]

    def get_state(self, key: str) -> bytes | None:
        """What the source kept."""
        return self._run.store.get(source_key(key))

    def put_state(self, key: str, value: bytes) -> None:
        """Keep it; offsets that are saved later need it."""
        self._run.store.put(source_key(key), value, numbered=True)

    def get_offset(self) -> Offset | None:
        """The offset saved last."""
        return self._run.saved_offset

    def spark(self) -> SparkSession:
        """The run's Spark session."""
        return self._run.spark.session()

    def committed_offset(self) -> Offset | None:
        """The offset that the source may acknowledge: durable at the target, saved, and followed by a newer save."""
        return self._run.committed_offset

    def oldest_offset(self) -> Offset | None:
        """The oldest offset that is kept, to which an operator may go back."""
        return self._run.oldest_offset()

    def set_ok(self) -> None:
        """The source delivers."""
        self._run.progress.source_error = None

    def set_error(self, error: Exception) -> None:
        """The source fails and retries."""
        self._run.progress.source_error = error


class TargetContext(DeltaTargetContext):
    """The target's context of one run.

    Args:
        run: The run.
        stop: Set when what the consumer does is to end before the run; None when it does not.
    """

    def __init__(self, run: Run, stop: threading.Event | None = None) -> None:
        self._run = run
        self._stop = stop
        self.replicator_name, self.namespace = run.config.name, run.config.namespace
        self.generation, self.run_id = run.generation, run.run_id
        self.metrics, self.lineage = run.metrics, run.lineage
        self.epoch = run.epoch
        self.parallel_tables = run.limits.parallel_tables

    @property
    def is_stopping(self) -> bool:
        """Whether the run, or what this consumer does, is to stop."""
        return self._run.stop.is_set() or (self._stop is not None and self._stop.is_set())

    def get_state(self, key: str) -> bytes | None:
        """What the target kept."""
        return self._run.store.get(f"target-{key}")

    def put_state(self, key: str, value: bytes) -> None:
        """Keep it."""
        self._run.store.put(f"target-{key}", value)

    def get_offset(self) -> Offset | None:
        """The offset saved last."""
        return self._run.saved_offset

    def spark(self) -> SparkSession:
        """The run's Spark session."""
        return self._run.spark.session()

    def commit_offset(self, offset: Offset, sequence_number: int) -> None:
        """Save the offset: the target confirms that everything up to it is durable."""
        self._run.save_offset(offset, sequence_number)

    def read_offset(self, fields: Mapping[str, bytes]) -> Offset:
        """The source's offset of these fields."""
        return self._run.read_offset(fields)

    def set_table_error(self, table: TableId, error: Exception) -> None:
        """Show the table as FAILING."""
        self._run.progress.set_table(table, TableState.FAILING, error)

    def set_table_snapshotting(self, table: TableId) -> None:
        """Show the table as SNAPSHOTTING."""
        self._run.progress.set_table(table, TableState.SNAPSHOTTING)

    def set_table_replicating(self, table: TableId) -> None:
        """Show the table as REPLICATING."""
        self._run.progress.set_table(table, TableState.REPLICATING)


def takes_snapshots(run: Run, definition: EventReaderDefinition) -> bool:
    """Whether the engine copies this source's tables; connects to nothing."""
    reader = run.pipeline.source.create_snapshot_reader(definition, SourceContext(run))
    if reader is None:
        return False
    reader.close()
    return True


def reads_tables_alone(run: Run, definition: EventReaderDefinition) -> bool:
    """Whether executors read this source's log, that of one table as well, and apply it to the target; connects to nothing."""
    log = run.pipeline.source.create_distributed_log(definition, SourceContext(run))
    if log is None or run.config.archive is not None:  # no archive is written beside slices
        return False
    log.close()
    if not log.reads_tables_alone:
        return False
    consumer = run.pipeline.target.create_consumer(TargetContext(run))
    consumer.stop()
    return isinstance(consumer, RangeConsumer)
