"""What the runtime offers a running plugin: the only way for a plugin to call the runtime."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_sdk.discovery.clean_up import StoredState
    from replicator_sdk.discovery.table_storage import TableStorage


class Metrics(ABC):
    """Counters and gauges of one replicator; safe from any thread, never blocks, never raises."""

    @abstractmethod
    def count(self, name: str, value: int = 1, *, table: TableId | None = None) -> None:
        """Add `value` to the counter `name` (e.g. `dml.insert`)."""

    @abstractmethod
    def gauge(self, name: str, value: float, *, table: TableId | None = None) -> None:
        """Set the gauge `name`."""

    def stored(self, table: TableId, storage: TableStorage) -> None:
        """A target's table consists of that now: its files, their bytes, its deleted rows; the runtime shows them as metrics of their own.

        Called by a target that knows it from what it holds in memory, after each commit of the table. It is for numbers that cost
        nothing: no request, no call of Java for each event, and no work that grows with the table's files. A target that has no
        files, or does not know, does not call it.
        """


class LineageRecorder(ABC):
    """Collects which source columns are written to which target columns; aggregated and published by the runtime, may lose the last minutes.

    The runtime publishes the lineage of each table by what source and target say of it (`dataset`, `dataset_columns`). A plugin
    records what only a run shows.
    """

    @abstractmethod
    def record(self, table: TableId, target: str, columns: Mapping[str, str]) -> None:
        """`table` is written to `target`; `columns` maps source column to target column.

        Args:
            table: The table.
            target: The dataset's name, in the namespace of the target's `dataset(table)`.
            columns: Source column → target column; others of the source are not written.
        """


class DeltaContext(ABC):
    """Common to source and target. Safe from any thread.

    Attributes:
        replicator_name: The pipeline's name.
        namespace: Its namespace.
        generation: Which deployment of this name it is, from 1; state of another generation is another replicator's.
        run_id: Differs for every start; part of every log line.
        metrics: Counters and gauges.
        lineage: Lineage recorder.
    """

    replicator_name: str
    namespace: str
    generation: int
    run_id: str
    metrics: Metrics
    lineage: LineageRecorder

    @abstractmethod
    def get_state(self, key: str) -> bytes | None:
        """What this plugin kept under `key`, None when nothing; keys of source and target do not meet."""

    @abstractmethod
    def put_state(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`, durable and atomic when it returns. Slow: not for every batch."""

    @abstractmethod
    def get_offset(self) -> Offset | None:
        """The offset saved last; None before the first save."""

    @abstractmethod
    def spark(self) -> SparkSession:
        """The run's Spark session, started at the first call with what plugins declared."""


class DeltaSourceContext(DeltaContext):
    """A source's context."""

    @property
    def is_stopping(self) -> bool:
        """Whether the run is to stop: what waits for the source, for however long, gives up within seconds."""
        return False

    @property
    def longest_wait_seconds(self) -> float:
        """For how long the source may wait for something that ends by itself, before that is an error; infinite by default."""
        return math.inf

    @property
    def state_was_lost(self) -> bool:
        """Whether an operator has said since the last generation that ran that its state was lost, or is an old copy
        (`replicator reset --lost-state`): the source then takes over what has the replicator's name there, whoever created it.
        """
        return False

    def former_states(self) -> Sequence[StoredState]:
        """What the generations before this one have stored, newest first, by which a source recognises what they created. A name alone
        proves nothing: another replicator of this name may keep its state elsewhere. Reads the state's folder: for a first start.
        """
        return ()

    @abstractmethod
    def committed_offset(self) -> Offset | None:
        """The offset that is durable at target and state: the source may delete its log up to there, and no further."""

    def oldest_offset(self) -> Offset | None:
        """The oldest offset that a later run may read from, where that is known: what the source keeps in state for offsets before
        it is needed no more. Reads the state's folder: not for every batch.
        """
        return None

    @abstractmethod
    def set_ok(self) -> None:
        """The source is reachable and delivering."""

    @abstractmethod
    def set_error(self, error: Exception) -> None:
        """The source is failing and retrying; shown in state until `set_ok`."""


class DeltaTargetContext(DeltaContext):
    """A target's context.

    Attributes:
        epoch: The run's lease epoch, to be stored in and checked inside every commit.
        parallel_tables: At most how many tables are applied at once.
    """

    epoch: int
    parallel_tables: int

    @property
    def is_stopping(self) -> bool:
        """Whether the run is to stop: what waits for an answer or repeats a request gives up within seconds."""
        return False

    @abstractmethod
    def commit_offset(self, offset: Offset, sequence_number: int) -> None:
        """Reports that everything up to `offset` is durable at the target; the runtime saves it.

        Only for consumers that gather by themselves; after `flush` or `apply_batch` has returned the runtime does it.
        """

    @abstractmethod
    def read_offset(self, fields: Mapping[str, bytes]) -> Offset:
        """The source's offset that these fields stored."""

    @abstractmethod
    def set_table_error(self, table: TableId, error: Exception) -> None:
        """Show `table` as FAILING with the error and its hint."""

    @abstractmethod
    def set_table_snapshotting(self, table: TableId) -> None:
        """Show `table` as SNAPSHOTTING; the runtime does this for snapshots it coordinates."""

    @abstractmethod
    def set_table_replicating(self, table: TableId) -> None:
        """Show `table` as REPLICATING; the runtime does this for snapshots it coordinates."""


class Configurer(ABC):
    """Given to `configure`, before anything runs and without any connection."""

    @abstractmethod
    def require_spark(self, *, packages: Sequence[str] = (), conf: Mapping[str, str] | None = None) -> None:
        """Ask for Maven packages and settings in the run's Spark session; the pipeline's own settings win."""

    @abstractmethod
    def add_failure(self, message: str, *, path: str = "", hint: str = "") -> None:
        """Report a configuration error found beyond what the settings model checks; all are shown together."""
