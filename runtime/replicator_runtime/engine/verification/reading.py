"""What a comparison knows of a replicator without its lease: it reads what runs store, and stores nothing."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_runtime.engine.tables.rewind_note import load_note
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_runtime.engine.views.phases import ENDED
from replicator_runtime.observability.lineage import Lineage
from replicator_runtime.observability.metrics import MetricsRegistry
from replicator_sdk import DeltaSourceContext, DeltaTargetContext, EventReaderDefinition
from replicator_sdk.context import DeltaContext
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, SnapshotReader, TableId, TableReader
    from replicator_state import ReplicatorDirectory


@dataclass(slots=True)
class Reading:
    """The stored state of a pipeline, its plugins, and a Spark session.

    Attributes:
        pipeline: The pipeline.
        directory: The state of its newest generation.
        stop: Set when the comparison is to end.
        runs_spark: The session of the run in whose process this is; without one it has its own.
        spark: The session, which starts when it is asked for.
    """

    pipeline: Pipeline
    directory: ReplicatorDirectory
    stop: threading.Event
    runs_spark: SparkHandle | None = None
    spark: SparkHandle = field(init=False)

    def __post_init__(self) -> None:
        self.spark = self.runs_spark or SparkHandle(self.pipeline)

    def records(self) -> Mapping[TableId, TableRecord]:
        """What is stored of each table now."""
        store = TableStore(self.directory.states().scoped("runtime"), self.pipeline.source.offset_type.from_fields)
        store.load()
        return store.records

    def saved_offset(self) -> Offset | None:
        """The offset saved last; every table that works has all changes up to there."""
        saved = self.directory.offsets().latest()
        return None if saved is None else self.pipeline.source.offset_type.from_fields(saved.fields)

    def is_rewinding(self) -> bool:
        """Whether a rewind was begun and is not finished: tables at the target may be at an earlier position than the saved offset."""
        return (
            load_note(self.directory.states().scoped("runtime"), self.pipeline.source.offset_type.from_fields)
            is not None
        )

    def has_ended(self) -> bool:
        """Whether the last run says that it has ended; one that was killed does not."""
        status = self.directory.states().read_status()
        return status is None or status.get("phase") in ENDED

    def snapshot_reader(self) -> SnapshotReader:
        """A reader of the source's tables; the caller closes it.

        Raises:
            NeedsUserError: RPL-1361 when the source has none.
        """
        definition = snapshot_definition(self.pipeline, self.records())
        reader = self.pipeline.source.create_snapshot_reader(definition, ReadingSourceContext(self))
        if reader is None:
            raise no_rows()
        return reader

    def table_reader(self) -> TableReader:
        """A reader of the target's tables.

        Raises:
            NeedsUserError: RPL-1362 when the target has none.
        """
        reader = self.pipeline.target.create_table_reader(ReadingTargetContext(self))
        if reader is None:
            raise no_reader(self.pipeline.target.name)
        return reader

    def pause(self, seconds: float) -> None:
        """Wait, unless the comparison is to end."""
        self.stop.wait(seconds)


def no_rows() -> NeedsUserError:
    """The error for a source that has a log only."""
    return NeedsUserError(
        "the source takes no snapshots: it has no rows to compare with, only a log",
        code="RPL-1361",
        hint="compare the tables with the database that the log is of, by a pipeline of its own",
    )


def no_reader(target: str) -> NeedsUserError:
    """The error for a target that cannot be read, or not with its settings."""
    return NeedsUserError(
        f"the target {target} has no rows that can be compared with the source's: it is not read for that yet, or its tables"
        " hold every change as a row (`mode`)",
        code="RPL-1362",
        hint="compare by queries of your own, of a history the latest row of each key; `replicator table resync NAME TABLE"
        " --in-place` copies a table again, and a history begins from scratch then",
    )


def snapshot_definition(pipeline: Pipeline, records: Mapping[TableId, TableRecord]) -> EventReaderDefinition:
    """For a reader of snapshots with all rows of these tables, as a run makes it."""
    schemas = {record.table: record.schema for record in records.values() if record.schemas}
    selection = pipeline.selection
    return EventReaderDefinition(
        schemas, pipeline.out_of_range, selection.narrowed(records), frozenset(), selection.selects
    )


class _Kept:
    """What a plugin stores during a comparison: read again by it, and dropped with it."""

    def __init__(self, reading: Reading, prefix: str) -> None:
        self._store = reading.directory.states().scoped("runtime")
        self._prefix = prefix
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._values:
                return self._values[key]
        return self._store.get(f"{self._prefix}-{key}")

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            self._values[key] = value


class _ReadingContext(DeltaContext):
    """What both contexts of a comparison share.

    Args:
        reading: The comparison.
        end: `source` or `target`.
        stage: The stage's name in the pipeline.
    """

    def __init__(self, reading: Reading, end: str, stage: str) -> None:
        config = reading.pipeline.config
        self._reading = reading
        self._kept = _Kept(reading, end)
        self.replicator_name, self.namespace = config.name, config.namespace
        self.generation, self.run_id = reading.directory.generation, f"verify-{int(time.time())}"
        self.metrics, self.lineage = MetricsRegistry(stage), Lineage()

    @property
    def is_stopping(self) -> bool:
        """Whether the comparison is to end."""
        return self._reading.stop.is_set()

    def get_state(self, key: str) -> bytes | None:
        """What the plugin kept, in a run or here."""
        return self._kept.get(key)

    def put_state(self, key: str, value: bytes) -> None:
        """Keep it until the comparison ends."""
        self._kept.put(key, value)

    def get_offset(self) -> Offset | None:
        """The offset saved last."""
        return self._reading.saved_offset()

    def spark(self) -> SparkSession:
        """The session."""
        return self._reading.spark.session()


class ReadingSourceContext(_ReadingContext, DeltaSourceContext):
    """The source's context of a comparison; it acknowledges nothing."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading, "source", reading.pipeline.source_stage)

    def committed_offset(self) -> Offset | None:
        """None: nothing is acknowledged."""
        return None

    def set_ok(self) -> None:
        """Shown nowhere."""

    def set_error(self, error: Exception) -> None:
        """Shown nowhere."""


class ReadingTargetContext(_ReadingContext, DeltaTargetContext):
    """The target's context of a comparison, without an epoch: it writes nothing."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading, "target", reading.pipeline.target_stage)
        self.epoch, self.parallel_tables = 0, 1

    def read_offset(self, fields: Mapping[str, bytes]) -> Offset:
        """The source's offset of these fields."""
        return self._reading.pipeline.source.offset_type.from_fields(fields)

    def commit_offset(self, offset: Offset, sequence_number: int) -> NoReturn:
        """Never called: nothing is written."""
        raise NotImplementedError("a comparison saves no offset")

    def set_table_error(self, table: TableId, error: Exception) -> None:
        """Shown nowhere."""

    def set_table_snapshotting(self, table: TableId) -> None:
        """Shown nowhere."""

    def set_table_replicating(self, table: TableId) -> None:
        """Shown nowhere."""
