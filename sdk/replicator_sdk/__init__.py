"""The contract between the replicator and its plugins.

A plugin package needs this distribution and nothing else of the project: subclass `DeltaSource` or `DeltaTarget`,
offer it through a `hookimpl`, and run the conformance kit in `replicator_sdk.testing`.
"""

from replicator_sdk.authoring.renames import ordered_renames
from replicator_sdk.authoring.row_repair import RepairableConsumer
from replicator_sdk.batch import (
    BatchIdentity,
    ChangeBatch,
    Commits,
    Int64s,
    Refusal,
    TableChanges,
    combined,
    single_commit,
)
from replicator_sdk.config import OutOfRange, PluginConfig, Secret
from replicator_sdk.context import (
    Configurer,
    DeltaContext,
    DeltaSourceContext,
    DeltaTargetContext,
    LineageRecorder,
    Metrics,
)
from replicator_sdk.discovery.assessment import (
    AcceptingAssessor,
    Assessment,
    ColumnAssessment,
    Finding,
    Severity,
    Support,
    TableAssessment,
    TableAssessor,
)
from replicator_sdk.discovery.clean_up import Leftover, NothingToRemove, SourceCleanUp, StoredState
from replicator_sdk.discovery.hookspec import hookimpl
from replicator_sdk.discovery.maintenance import AppliesHeld, MaintenanceReport, MaintenanceTask
from replicator_sdk.discovery.table_registry import FixedTables, TableRegistry, TableSummary
from replicator_sdk.distributed.counted import Counted
from replicator_sdk.distributed.executors import run_on_executors
from replicator_sdk.distributed.partitioned_log import (
    DistributedLog,
    LogItem,
    LogPartition,
    LogPartitionReader,
    LogSlice,
    ReadUntil,
    SchemaSeen,
    SchemaStep,
)
from replicator_sdk.distributed.slices import RangeConsumer, SliceChanges, SliceOutcome, TableTally
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation, DMLEvent, DMLOperation
from replicator_sdk.offset import NumberOffset, Offset, Position
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.snapshot import (
    ChunkReader,
    MarkedChunkReader,
    SnapshotChunk,
    SnapshotReader,
    TableSnapshot,
    chunk_dataframe,
)
from replicator_sdk.source import (
    DeltaSource,
    EventEmitter,
    EventReader,
    EventReaderDefinition,
    ReaderClosed,
    StartFrom,
)
from replicator_sdk.target import (
    BatchConsumer,
    DeferredConsumer,
    DeltaTarget,
    EarlierVersion,
    EventConsumer,
    RewindableConsumer,
    SnapshotLoader,
    TableProgress,
    TableReader,
    TableVersion,
)

__version__ = "0.1.0"

__all__ = [
    "AcceptingAssessor",
    "Alter",
    "AlterKind",
    "AppliesHeld",
    "Assessment",
    "BatchConsumer",
    "BatchIdentity",
    "ChangeBatch",
    "ChunkReader",
    "Column",
    "ColumnAssessment",
    "Commits",
    "Configurer",
    "Counted",
    "DDLEvent",
    "DDLOperation",
    "DMLEvent",
    "DMLOperation",
    "DeferredConsumer",
    "DeltaContext",
    "DeltaSource",
    "DeltaSourceContext",
    "DeltaTarget",
    "DeltaTargetContext",
    "DistributedLog",
    "EarlierVersion",
    "EventConsumer",
    "EventEmitter",
    "EventReader",
    "EventReaderDefinition",
    "Finding",
    "FixedTables",
    "Int64s",
    "Leftover",
    "LineageRecorder",
    "LogItem",
    "LogPartition",
    "LogPartitionReader",
    "LogSlice",
    "MaintenanceReport",
    "MaintenanceTask",
    "MarkedChunkReader",
    "Metrics",
    "NothingToRemove",
    "NumberOffset",
    "Offset",
    "OutOfRange",
    "PluginConfig",
    "Position",
    "RangeConsumer",
    "ReadUntil",
    "ReaderClosed",
    "Refusal",
    "RepairableConsumer",
    "RewindableConsumer",
    "SchemaSeen",
    "SchemaStep",
    "Secret",
    "Severity",
    "SliceChanges",
    "SliceOutcome",
    "SnapshotChunk",
    "SnapshotLoader",
    "SnapshotReader",
    "SourceCleanUp",
    "StartFrom",
    "StoredState",
    "Support",
    "TableAssessment",
    "TableAssessor",
    "TableChanges",
    "TableId",
    "TableProgress",
    "TableReader",
    "TableRegistry",
    "TableSchema",
    "TableSnapshot",
    "TableSummary",
    "TableTally",
    "TableVersion",
    "chunk_dataframe",
    "combined",
    "hookimpl",
    "ordered_renames",
    "run_on_executors",
    "single_commit",
]
