"""Settings of the target `delta`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field, field_validator

from replicator_sdk.config import OutOfRange, PluginConfig, SettingEdit
from replicator_sdk.discovery.assessment import Severity

SEQUENCE: Final = "sequence_num"
SOURCE_TIMESTAMP: Final = "source_timestamp"
IS_DELETED: Final = "is_deleted"
BATCH_ID: Final = "batch_id"
OPERATION: Final = "op"
METADATA_COLUMNS: Final = (SEQUENCE, BATCH_ID, OPERATION, IS_DELETED, SOURCE_TIMESTAMP)


class DropTables(enum.StrEnum):
    """What happens to the target's table when the source drops its own."""

    KEEP = "keep"
    """It stays as it is, and says in its properties since when."""
    DROP = "drop"
    """Its folder is deleted."""


_OTHER_COLUMNS: Final = SettingEdit(
    "each table of earlier runs has other columns, and stops at its next change",
    "put it back; or copy each table again, without rows that are marked as deleted: `replicator table resync NAME TABLE…`",
    Severity.ERROR,
    "RPL-6405",
)
_LATER_ROWS: Final = SettingEdit("rows that are written from the next run on follow it; the others stay as they are")


class DeltaConfig(PluginConfig):
    """Settings of the target `delta`.

    Attributes:
        path: Folder of all tables: a local path, or a URI that both Spark and pyarrow can open (file, s3, gs, abfss, hdfs).
        soft_deletes: Keep deleted rows with their last values and `_is_deleted` true.
        out_of_range: What the runtime does with values the standard types cannot hold.
        metadata_columns: Which columns of the replicator's own each table gets, without prefix; `is_deleted` comes by
            itself with `soft_deletes`.
        metadata_prefix: Their prefix.
        drop_tables: What happens to a table that the source drops.
        optimize_interval_seconds: How often small files are compacted and deletion vectors purged; 0 for never.
        vacuum_interval_seconds: How often files that no version within the retention refers to are deleted; 0 for never.
        vacuum_retention_hours: How old such a file, or a commit, must be: the reach of time travel and of slow readers.
        target_file_bytes: About how large data files are, in memory before compression.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "path": SettingEdit(
            "tables of earlier runs are looked for there; one that is not there stops (RPL-4101, RPL-4103), and is"
            " not created again",
            "move the tables' folders there while the replicator is stopped, or put it back; or `replicator reset PIPELINE`:"
            " every table is copied there",
            Severity.WARNING,
        ),
        "softDeletes": _OTHER_COLUMNS,
        "metadataColumns": _OTHER_COLUMNS,
        "metadataPrefix": _OTHER_COLUMNS,
        "outOfRange": _LATER_ROWS,
        "dropTables": SettingEdit("tables that the source drops from the next run on follow it; those kept stay"),
        "targetFileBytes": SettingEdit(
            "files that are written from the next run on have that size; maintenance leaves the others"
        ),
    }

    path: Annotated[str, Field(min_length=1)]
    soft_deletes: bool = False
    out_of_range: OutOfRange = OutOfRange.FAIL
    metadata_columns: tuple[str, ...] = (SEQUENCE, SOURCE_TIMESTAMP)
    metadata_prefix: str = "_"
    drop_tables: DropTables = DropTables.KEEP
    optimize_interval_seconds: Annotated[float, Field(ge=0)] = 600.0
    vacuum_interval_seconds: Annotated[float, Field(ge=0)] = 86400.0
    vacuum_retention_hours: Annotated[int, Field(ge=1)] = 168
    target_file_bytes: Annotated[int, Field(ge=1 << 20)] = 32 << 20

    @field_validator("metadata_columns", mode="before")
    @classmethod
    def _without_prefix(cls, value: object) -> object:
        """`_sequence_num` and `sequence_num` mean the same."""
        if isinstance(value, list | tuple):
            return tuple(str(v).removeprefix("_") for v in value)
        return value

    @field_validator("metadata_columns")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(value) - set(METADATA_COLUMNS)):
            raise ValueError(f"no such metadata column: {', '.join(unknown)}; there are {', '.join(METADATA_COLUMNS)}")
        return value

    def metadata_names(self) -> dict[str, str]:
        """Metadata column → its name in the tables, in the order of the tables' columns."""
        wanted = {*self.metadata_columns, *([IS_DELETED] if self.soft_deletes else [])}
        return {kind: self.metadata_prefix + kind for kind in METADATA_COLUMNS if kind in wanted}
