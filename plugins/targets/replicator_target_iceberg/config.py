"""Settings of the target `iceberg`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from replicator_sdk.config import OutOfRange, PluginConfig, Secret, SettingEdit
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.merge_on_read import PRIMARY_KEY, TOMBSTONE_KEY, TOMBSTONE_STRING_KEY_VALUE, WATERMARK_KEY
from replicator_sdk.row_versions import VERSION_END_KEY
from replicator_sdk.schema import TableId
from replicator_target_iceberg.arrangement.terms import PartitionTerm, SortTerm, partition_terms, sort_terms


class CatalogType(enum.StrEnum):
    """Which kind of Iceberg catalog names the tables."""

    HADOOP = "hadoop"
    """Folders below `warehouse`, on a disk or HDFS."""
    JDBC = "jdbc"
    """A database."""
    REST = "rest"
    """A server that speaks Iceberg's REST protocol."""
    HIVE = "hive"
    """A Hive metastore."""
    GLUE = "glue"
    """AWS Glue."""
    CUSTOM = "custom"
    """The class that `catalogProperties` names as `catalog-impl`."""


class Mode(enum.StrEnum):
    """What a table holds."""

    MERGE = "merge"
    """The source's rows as they are now."""
    APPEND = "append"
    """Every change, as a row of its own."""
    MERGE_ON_READ = "merge-on-read"
    """Every change as a row; readers take the latest row of each key."""
    SCD2 = "scd2"
    """Every version of a row as a row, with the time from which and to which it was valid."""

    @property
    def is_read_by_keys(self) -> bool:
        """Whether a key has several rows, and table properties name the keys to readers."""
        return self in (Mode.MERGE_ON_READ, Mode.SCD2)


class Coordinator(enum.StrEnum):
    """What elects the process that commits, and how it gets the files that were written."""

    STATE = "state"
    """The lease in the pipeline's state: the run that has it writes the files and commits them."""


class DropTables(enum.StrEnum):
    """What happens to the target's table when the source drops its own."""

    KEEP = "keep"
    """It stays as it is, and its newest snapshot says that the source dropped it."""
    DROP = "drop"
    """It is deleted with its files."""


_LONGEST_MS: Final = 3_600_000  # files that wait longer could be taken for orphans
_BY_SETTING: Final = {"format-version": "formatVersion", "write.target-file-size-bytes": "targetFileBytes"}
OWN_TOMBSTONE: Final = "replicator.tombstone-key-is-own"
"""The property that every merge-on-read table of this target has. By it maintenance, which does not know the source's columns, sees
whether the tombstone key is one of them.
"""
KEY_PROPERTIES: Final = (
    PRIMARY_KEY,
    WATERMARK_KEY,
    TOMBSTONE_KEY,
    TOMBSTONE_STRING_KEY_VALUE,
    OWN_TOMBSTONE,
    VERSION_END_KEY,
)
"""The table properties that say by which keys a table with several rows of a key is read."""
_PARQUET: Final = "write.parquet."
# What is written by other rules here: a property that says something else would not be true of this target's files.
_NOT_FOLLOWED: Final = (
    "write.object-storage.",
    "write.data.path",
    "write.folder-storage.path",
    "write.location-provider.impl",
)
_FORMATS: Final = ("write.format.default", "write.delete.format.default")
CODEC: Final = "write.parquet.compression-codec"
LEVEL: Final = "write.parquet.compression-level"
CODECS: Final = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "brotli": "brotli",
    "uncompressed": "none",
}
"""Iceberg's names of the codecs of Parquet files, and pyarrow's."""
_SAME_TABLES: Final = SettingEdit(
    "tables of earlier runs are looked for there; one that is not there stops (RPL-4101, RPL-4103), and is not created again",
    "put it back; or `replicator reset PIPELINE`: every table is copied there",
    Severity.WARNING,
)

IS_DELETED: Final = "_is_deleted"
"""The tombstone key of tables in the mode `merge-on-read` where the settings name none."""
MAIN: Final = "main"
"""The branch that every table has, and that readers see who name none."""

_OTHER_KEYS: Final = SettingEdit(
    "each table of earlier runs has other columns, or is read by other keys, and stops at its next change",
    "put it back; or copy each table again: `replicator table resync NAME TABLE…`",
    Severity.ERROR,
    "RPL-6425",
)
_NEW_TABLES: Final = (
    "tables that are created from the next run on have it; the others keep theirs, also when they are copied again"
)


class IcebergConfig(PluginConfig):
    """Settings of the target `iceberg`.

    Attributes:
        catalog: The catalog's name, the first part of every table's name.
        catalog_type: Which kind of catalog it is.
        warehouse: Where the tables' files are: a folder or a URI that both Spark and pyarrow can open; for `rest` what the server
            calls a warehouse.
        uri: Where the catalog is: a JDBC URL, a REST server's address, or a Hive metastore's.
        catalog_properties: Further properties of the catalog, as Iceberg names them; never shown, since they may hold passwords.
        format_version: Of new tables: 2 (position delete files) or 3 (deletion vectors).
        mode: What a table holds.
        watermark_keys: In the mode `merge-on-read`, the columns whose values say how fresh a row is; the sequence number
            decides between equal ones, and alone where there are none.
        tombstone_key: In the mode `merge-on-read`, the column that says that a row is deleted; made where the source's table has none of
            that name. `_is_deleted` when left out.
        tombstone_string_key_value: What that column has in deleted rows, where it is a text.
        partitioning: Partition transforms of new tables, as Iceberg names them, by pattern of `schema.table`; the last pattern wins.
        sort_order: Columns that the files of new tables are sorted by, by pattern of `schema.table`; the last pattern wins.
        table_properties: Properties of new tables, as Iceberg names them, by pattern of `schema.table`; later patterns win.
        branch: The branch of each table that commits go to, and that says how far the table is.
        coordinator: What elects the process that commits.
        commit_interval_ms: At least so much time is between two commits of a table, which hold all batches taken meanwhile; 0 for a
            commit with each batch.
        commit_timeout_ms: How long a commit that is due waits for tables whose files are being written; later files are in the next
            commit.
        drop_tables: What happens to a table that the source drops.
        out_of_range: What the runtime does with values the standard types cannot hold.
        target_file_bytes: About how large data files are, in memory before compression.
        compact_interval_seconds: How often small files and files with many deleted rows are written again; 0 for never.
        expire_interval_seconds: How often old snapshots and the files that only they need are deleted; 0 for never.
        snapshot_retention_hours: How old a snapshot must be for that: the reach of time travel and of slow readers.
        orphan_interval_seconds: How often files are looked for that no snapshot needs, and deleted; 0 for never.
        orphan_retention_hours: How old such a file must be: longer than any copy of a table may take.
        snapshots_kept: How many snapshots stay at most, also younger ones: every commit writes the list of all.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = {
        "catalog": SettingEdit("it is another name for the same catalog; the tables stay what they are"),
        "catalogType": _SAME_TABLES,
        "warehouse": _SAME_TABLES,
        "uri": _SAME_TABLES,
        "mode": SettingEdit(
            "each table of earlier runs has other columns, or is read by other keys, and stops at its next change",
            "put it back; or copy each table again, which takes the history of a table of the modes append and scd2 away:"
            " `replicator table resync NAME TABLE…`",
            Severity.ERROR,
            "RPL-6425",
        ),
        "watermarkKeys": _OTHER_KEYS,
        "tombstoneKey": _OTHER_KEYS,
        "tombstoneStringKeyValue": _OTHER_KEYS,
        "formatVersion": SettingEdit(
            "tables that are created from the next run on have it; the others stay as they are"
        ),
        "partitioning": SettingEdit(_NEW_TABLES),
        "sortOrder": SettingEdit(_NEW_TABLES),
        "tableProperties": SettingEdit(
            "tables that are created from the next run on have them; the others stay as they are"
        ),
        "branch": SettingEdit(
            "commits go to that branch, which begins from `main` where it is missing; the former one stays as it is. A table that is further back"
            " there is copied again (RPL-4110), or stops where the source takes no snapshots (RPL-4111); one of which this replicator has no"
            " commit there stops (RPL-3442)",
            "put it back; or fast-forward `main` to the former branch before; or copy each table that stops again:"
            " `replicator table resync NAME TABLE…`",
            Severity.WARNING,
            "RPL-3442",
        ),
        "dropTables": SettingEdit("tables that the source drops from the next run on follow it; those kept stay"),
        "outOfRange": SettingEdit("rows that are written from the next run on follow it; the others stay as they are"),
        "targetFileBytes": SettingEdit("files that are written from the next run on have that size; the others stay"),
    }

    catalog: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z][A-Za-z0-9_]*$",
            json_schema_extra={"rule": "must hold only letters, digits and _, and begin with a letter"},
        ),
    ]
    catalog_type: CatalogType
    warehouse: str = ""
    uri: str = ""
    catalog_properties: Mapping[str, Secret] = Field(default_factory=dict)
    format_version: Literal[2, 3] = 2
    mode: Mode = Mode.MERGE
    watermark_keys: tuple[str, ...] = ()
    tombstone_key: str = ""
    tombstone_string_key_value: str | None = None
    partitioning: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    sort_order: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    table_properties: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    branch: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
            json_schema_extra={
                "rule": "must hold only letters, digits, _, - and ., and begin with none of the last two"
            },
        ),
    ] = MAIN
    coordinator: Coordinator = Coordinator.STATE
    commit_interval_ms: Annotated[int, Field(ge=0, le=_LONGEST_MS)] = 0
    commit_timeout_ms: Annotated[int, Field(ge=0, le=_LONGEST_MS)] = 30_000
    drop_tables: DropTables = DropTables.KEEP
    out_of_range: OutOfRange = OutOfRange.FAIL
    target_file_bytes: Annotated[int, Field(ge=1 << 20)] = 32 << 20
    compact_interval_seconds: Annotated[float, Field(ge=0)] = 600.0
    expire_interval_seconds: Annotated[float, Field(ge=0)] = 3600.0
    snapshot_retention_hours: Annotated[int, Field(ge=1)] = 24
    snapshots_kept: Annotated[int, Field(ge=10)] = 500
    orphan_interval_seconds: Annotated[float, Field(ge=0)] = 86_400.0
    orphan_retention_hours: Annotated[int, Field(ge=24)] = 72

    @field_validator("coordinator", mode="before")
    @classmethod
    def _is_the_lease(cls, value: object) -> object:
        if value == "kafka":
            raise ValueError(
                "a coordinator over a Kafka topic, for several processes, does not exist yet; there is state"
            )
        return value

    @field_validator("partitioning")
    @classmethod
    def _are_transforms(cls, value: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        for texts in value.values():
            partition_terms(texts)
        return value

    @field_validator("sort_order")
    @classmethod
    def _are_orders(cls, value: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        for texts in value.values():
            sort_terms(texts)
        return value

    @field_validator("table_properties")
    @classmethod
    def _are_followed(cls, value: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
        """What a setting says is not said twice, and what this target's files would not follow is not said at all."""
        for properties in value.values():
            for name, text in properties.items():
                if name in KEY_PROPERTIES:
                    raise ValueError(
                        f"{name} says by which keys a table is read: it follows from the mode and its settings"
                    )
                if name in _BY_SETTING:
                    raise ValueError(f"{name} follows from `{_BY_SETTING[name]}`")
                if name in _FORMATS and text.lower() != "parquet":
                    raise ValueError(f"data files are Parquet; {name} can be nothing else")
                if name == CODEC and text.lower() not in CODECS:
                    raise ValueError(f"{name} must be one of {', '.join(CODECS)}")
                if name == LEVEL and not text.isdecimal():
                    raise ValueError(f"{name} must be a whole number")
                if name.startswith(_NOT_FOLLOWED) or (name.startswith(_PARQUET) and name not in (CODEC, LEVEL)):
                    raise ValueError(f"this target's files do not follow {name}")
        return value

    @field_validator("branch")
    @classmethod
    def _is_no_tag(cls, value: str) -> str:
        if value.lower().startswith("replicator"):
            raise ValueError("a branch cannot be named like the replicator's own tags, which begin with `replicator`")
        return value

    @model_validator(mode="after")
    def _of_the_mode(self) -> Self:
        """What is of one mode is not said in the others."""
        if len(set(self.watermark_keys)) < len(self.watermark_keys):
            raise ValueError("`watermarkKeys` names a column twice")
        named = self.watermark_keys or self.tombstone_key or self.tombstone_string_key_value is not None
        if named and self.mode is not Mode.MERGE_ON_READ:
            raise ValueError(
                "`watermarkKeys`, `tombstoneKey` and `tombstoneStringKeyValue` are of the mode merge-on-read"
            )
        return self

    @model_validator(mode="after")
    def _leaves_others(self) -> Self:
        """A deleted table has no branch any more."""
        if self.branch != MAIN and self.drop_tables is DropTables.DROP:
            raise ValueError(
                'with a `branch` of its own `dropTables` must be "keep": "drop" would delete `main` and all other branches'
            )
        return self

    @model_validator(mode="after")
    def _complete(self) -> Self:
        """What each kind of catalog cannot do without."""
        needs = {CatalogType.HADOOP: ("warehouse",), CatalogType.JDBC: ("warehouse", "uri"), CatalogType.REST: ("uri",)}
        if lacking := [name for name in needs.get(self.catalog_type, ()) if not getattr(self, name)]:
            raise ValueError(
                f"a catalog of the type {self.catalog_type} needs {' and '.join(f'`{n}`' for n in lacking)}"
            )
        if self.catalog_type is CatalogType.CUSTOM and "catalog-impl" not in self.catalog_properties:
            raise ValueError("a catalog of the type custom needs `catalog-impl` in `catalogProperties`")
        return self

    def properties(self) -> dict[str, str]:
        """The catalog's properties as Iceberg's library takes them; they may hold passwords."""
        own = {"warehouse": self.warehouse, "uri": self.uri}
        if self.catalog_type is not CatalogType.CUSTOM:
            own["type"] = self.catalog_type.value
        if self.catalog_type is CatalogType.JDBC:
            own["jdbc.schema-version"] = "V1"
        given = {name: secret.get_secret_value() for name, secret in self.catalog_properties.items()}
        return {**{name: value for name, value in own.items() if value}, **given}

    def properties_of(self, table: TableId) -> dict[str, Any]:
        """The properties of a new table, those that the settings do not name included."""
        found = {
            "format-version": str(self.format_version),
            CODEC: "zstd",
            "write.delete.mode": "merge-on-read",
            "write.update.mode": "merge-on-read",
            "write.merge.mode": "merge-on-read",
            # Each commit writes one: the older ones are of no use to readers.
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "20",
        }
        for pattern, properties in self.table_properties.items():
            if fnmatchcase(str(table), pattern):
                found.update(properties)
        return found

    def partitioning_of(self, table: TableId) -> tuple[PartitionTerm, ...] | None:
        """What a new table is partitioned by; None where no pattern matches."""
        texts = _last(self.partitioning, table)
        return None if texts is None else partition_terms(texts)

    def sorting_of(self, table: TableId) -> tuple[SortTerm, ...]:
        """What the files of a new table are sorted by."""
        return sort_terms(_last(self.sort_order, table) or ())


def _last(patterns: Mapping[str, tuple[str, ...]], table: TableId) -> tuple[str, ...] | None:
    """What the last pattern that matches says."""
    found = None
    for pattern, texts in patterns.items():
        if fnmatchcase(str(table), pattern):
            found = texts
    return found
