"""Settings of the target `delta`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, field_validator, model_validator

from replicator_sdk.config import OutOfRange, PluginConfig, SettingEdit
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.row_versions import END_SEQUENCE, IS_CURRENT, SEQUENCE, VALID_FROM, VALID_TO

SOURCE_TIMESTAMP: Final = "source_timestamp"
IS_DELETED: Final = "is_deleted"
BATCH_ID: Final = "batch_id"
OPERATION: Final = "op"
TOMBSTONE: Final = "tombstone"
"""As `IS_DELETED`, for a tombstone key that is a text; no setting names it."""
VERSION_COLUMNS: Final = (VALID_FROM, VALID_TO, IS_CURRENT, END_SEQUENCE)
"""Those of the mode `scd2`; no setting names them."""
METADATA_COLUMNS: Final = (SEQUENCE, BATCH_ID, OPERATION, IS_DELETED, TOMBSTONE, SOURCE_TIMESTAMP, *VERSION_COLUMNS)


class Mode(enum.StrEnum):
    """What a table holds."""

    MERGE = "merge"
    """The source's rows as they are now."""
    MERGE_ON_READ = "merge-on-read"
    """Every change as a row; readers take the latest row of each key."""
    SCD2 = "scd2"
    """Every version of a row as a row, with the time from which and to which it was valid."""


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
_OTHER_KEYS: Final = SettingEdit(
    "each table of earlier runs has other columns, or is read by other keys, and stops at its next change",
    "put it back; or copy each table again: `replicator table resync NAME TABLE…`",
    Severity.ERROR,
    "RPL-6405",
)
_OTHER_MODE: Final = SettingEdit(
    "each table of earlier runs has other columns, or is read by other keys, and stops at its next change",
    "put it back; or copy each table again, which takes the history of a table of the mode scd2 away:"
    " `replicator table resync NAME TABLE…`",
    Severity.ERROR,
    "RPL-6405",
)
_LATER_ROWS: Final = SettingEdit("rows that are written from the next run on follow it; the others stay as they are")


class DeltaConfig(PluginConfig):
    """Settings of the target `delta`.

    Attributes:
        path: Folder of all tables: a local path, or a URI that both Spark and pyarrow can open (file, s3, gs, abfss, hdfs).
        mode: What a table holds.
        watermark_keys: In the mode `merge-on-read`, the columns whose values say how fresh a row is; the sequence number
            decides between equal ones, and alone where there are none.
        tombstone_key: In the mode `merge-on-read`, the column that says that a row is deleted; made where the source's table has none of
            that name. `is_deleted` with the prefix when left out.
        tombstone_string_key_value: What that column has in deleted rows, where it is a text.
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
        "mode": _OTHER_MODE,
        "watermarkKeys": _OTHER_KEYS,
        "tombstoneKey": _OTHER_KEYS,
        "tombstoneStringKeyValue": _OTHER_KEYS,
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
    mode: Mode = Mode.MERGE
    watermark_keys: tuple[str, ...] = ()
    tombstone_key: str = ""
    tombstone_string_key_value: str | None = None
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
        known = [name for name in METADATA_COLUMNS if name not in {TOMBSTONE, *VERSION_COLUMNS}]
        if unknown := sorted(set(value) - set(known)):
            raise ValueError(f"no such metadata column: {', '.join(unknown)}; there are {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _of_the_mode(self) -> Self:
        """What is of one mode is not said in the other."""
        if self.mode is Mode.MERGE_ON_READ:
            if self.soft_deletes:
                raise ValueError(
                    "`softDeletes` is of the mode merge: in the mode merge-on-read a deleted row is a row of its own"
                )
            if len(set(self.watermark_keys)) < len(self.watermark_keys):
                raise ValueError("`watermarkKeys` names a column twice")
            return self
        if self.mode is Mode.SCD2 and self.soft_deletes:
            raise ValueError(
                "`softDeletes` is of the mode merge: in the mode scd2 a deleted row stays as a version that has ended"
            )
        if self.watermark_keys or self.tombstone_key or self.tombstone_string_key_value is not None:
            raise ValueError(
                "`watermarkKeys`, `tombstoneKey` and `tombstoneStringKeyValue` are of the mode merge-on-read"
            )
        return self

    def metadata_names(self) -> dict[str, str]:
        """Metadata column → its name in the tables, in the order of the tables' columns; without the column of a tombstone key, which is
        a matter of each table (`form_of`).
        """
        wanted = {*self.metadata_columns, *([IS_DELETED] if self.soft_deletes else [])}
        if self.mode is Mode.MERGE_ON_READ:
            wanted = (wanted | {SEQUENCE}) - {IS_DELETED}
        if self.mode is Mode.SCD2:
            wanted = (wanted | {SEQUENCE, *VERSION_COLUMNS}) - {IS_DELETED}
        return {kind: self.metadata_prefix + kind for kind in METADATA_COLUMNS if kind in wanted}
