"""Settings of the target `bigquery`."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, field_validator, model_validator

from replicator_sdk.config import OutOfRange, Secret, SettingEdit
from replicator_target_bigquery.merge_flush_settings import MergeFlushSettings
from replicator_target_bigquery.setting_edits import EDITS

SEQUENCE: Final = "_sequence_num"
IS_DELETED: Final = "_is_deleted"
COMMITS: Final = "_replicator_commits"
UNMATCHED: Final = "_replicator_unmatched_"
COPY: Final = "_replicator_copy_"
_LABEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE: Final = re.compile(r"[a-z0-9_-]{0,63}")


class Mode(enum.StrEnum):
    """How changes reach the tables."""

    BATCH = "batch"
    """Load jobs into staging tables, one MERGE a batch (docs/seeds.md#001-replicator)."""
    MERGE_FLUSH = "merge-flush"
    """Streaming into intermediate tables, merged at intervals (docs/seeds.md#000-bigquery)."""
    CDC = "cdc"
    """Net changes streamed to BigQuery's change data capture."""


class SchemaChanges(enum.StrEnum):
    """How the target follows a column that the source renames or gives another type."""

    FAIL = "fail"
    """The table stops with a `SchemaDriftError`."""
    NEW_COLUMN = "newColumn"
    """A column is added beside the old one and takes over its values; the old one stays as it was."""
    REBUILD = "rebuild"
    """The column is renamed, or the table rewritten with the new type."""


class Arrays(enum.StrEnum):
    """What the columns of arrays are in new tables."""

    NATIVE = "native"
    """ARRAY: NULL becomes an empty array, and `outOfRange` decides about elements that are NULL."""
    WRAPPED = "wrapped"
    """STRUCT<list ARRAY<STRUCT<element …>>>, which holds both as they are."""


class Json(enum.StrEnum):
    """What the columns of JSON are in new tables."""

    STRING = "string"
    """STRING, with the source's own text."""
    JSON = "json"
    """JSON, which rewrites numbers and the order of names."""


class PartitionType(enum.StrEnum):
    """How long a partition is."""

    HOUR = "HOUR"
    DAY = "DAY"
    MONTH = "MONTH"
    YEAR = "YEAR"


class BigQueryConfig(MergeFlushSettings):
    """Settings of the target `bigquery`.

    Attributes:
        project: The project that runs and pays for jobs.
        dataset_project: The project of the datasets; `project` when empty.
        dataset_name: The dataset of all tables; the source's schema or database when empty.
        service_account_key: The JSON text of a service account's key; application default credentials when left out.
        staging_bucket: The bucket through which rows are loaded; it must exist.
        staging_bucket_location: Where datasets are created and jobs run; the bucket's own location.
        load_interval: The shortest time between two loads of one table, in seconds; BigQuery allows 1500 a day.
        staging_table_prefix: What the names of staging tables begin with.
        staging_expiration_hours: How long staged changes are kept.
        require_manual_drops: A table that the source drops stops until an operator drops it at the target, too.
        soft_deletes: Keep deleted rows, with `_is_deleted` true.
        encryption_key_name: Full name of the Cloud KMS key that encrypts tables; Google's own when empty.
        mode: How changes reach the tables: `batch`, `merge-flush`, which has settings of its own, or `cdc`.
        max_staleness: With mode `cdc`, how old a query's answer may be, in seconds: 0 lets each query apply what was
            streamed, more lets BigQuery do so in the background. Set when a table is created.
        schema_changes: How the target follows a column that the source renames or gives another type.
        arrays: What arrays become in new columns: `native`, BigQuery's ARRAY, or `wrapped`, a STRUCT that keeps NULL apart
            from empty and holds NULL elements. Columns that are there keep their form; keys, and arrays of arrays, are wrapped.
        json_columns: What JSON becomes in new columns: `string`, or `json`, BigQuery's JSON. Columns that are there keep
            their type; JSON in keys, arrays and records is `string`.
        partition_by: Source table as `folder.table` → its DATE, TIMESTAMP or DATETIME column by which the target's
            table is partitioned when it is created.
        partition_type: How long those partitions are.
        require_partition_filter: Whether queries of those tables must name partitions.
        labels: Labels of datasets, tables and jobs that the replicator makes.
        out_of_range: What the runtime does with values the standard types cannot hold. `fail` also stops a table whose
            native arrays have a NULL element; `null` and `clamp` leave such elements out.
        retry_seconds: How long one request is repeated while BigQuery is busy or away, before the whole batch is repeated.
        api_endpoint: BigQuery's address, for private endpoints and emulators.
        storage_endpoint: Cloud Storage's address, likewise.
        storage_write_endpoint: The address of the Storage Write API and the Storage Read API, likewise; for modes
            `merge-flush` and `cdc`, and for comparisons with the source.
    """

    edits: ClassVar[Mapping[str, SettingEdit]] = EDITS

    project: Annotated[str, Field(min_length=1)]
    dataset_project: str = ""
    dataset_name: str = ""
    service_account_key: Secret | None = None
    staging_bucket: Annotated[str, Field(min_length=1)]
    staging_bucket_location: Annotated[str, Field(min_length=1)] = "us"
    load_interval: Annotated[float, Field(ge=0)] = 90.0
    staging_table_prefix: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_]+$", json_schema_extra={"rule": "must hold only letters, digits and _"})
    ] = "_staging_"
    staging_expiration_hours: Annotated[int, Field(ge=24)] = 72
    require_manual_drops: bool = False
    soft_deletes: bool = False
    encryption_key_name: str = ""
    mode: Mode = Mode.BATCH
    max_staleness: Annotated[int, Field(ge=0, le=86400)] = 0
    schema_changes: SchemaChanges = SchemaChanges.FAIL
    arrays: Arrays = Arrays.NATIVE
    json_columns: Annotated[Json, Field(alias="json")] = Json.STRING
    partition_by: dict[str, str] = Field(default_factory=dict)
    partition_type: PartitionType = PartitionType.DAY
    require_partition_filter: bool = False
    labels: dict[str, str] = Field(default_factory=dict)
    out_of_range: OutOfRange = OutOfRange.FAIL
    retry_seconds: Annotated[float, Field(gt=0)] = 300.0
    api_endpoint: str = ""
    storage_endpoint: str = ""
    storage_write_endpoint: str = ""

    @model_validator(mode="after")
    def _fits_the_mode(self) -> Self:
        if self.max_staleness and self.mode is not Mode.CDC:
            raise ValueError("maxStaleness belongs to mode cdc")
        if self.mode is Mode.MERGE_FLUSH:
            self._fits_merge_flush()
        else:
            self.refuse_in_other_modes()
        if self.mode is Mode.CDC:
            self._fits_cdc()
        return self

    def _fits_cdc(self) -> None:
        if self.soft_deletes:
            raise ValueError("softDeletes cannot be had with mode cdc: BigQuery's change data capture deletes rows")
        if self.require_partition_filter:
            raise ValueError("requirePartitionFilter cannot be had with mode cdc: BigQuery refuses it there")

    def _fits_merge_flush(self) -> None:
        self.check()
        if self.soft_deletes and not self.delete_enabled:
            raise ValueError("in mode merge-flush, softDeletes needs deleteEnabled: else deletes are left out")
        if self.partition_by:
            raise ValueError("in mode merge-flush, timestampPartitionFieldName takes the place of partitionBy")
        if self.require_partition_filter and not self.timestamp_partition_field_name:
            raise ValueError("in mode merge-flush, requirePartitionFilter needs timestampPartitionFieldName")
        if self.kafka_key_field_name.lower() in {SEQUENCE, IS_DELETED}:
            raise ValueError(f"kafkaKeyFieldName must not be {self.kafka_key_field_name}")

    @field_validator("labels")
    @classmethod
    def _labels_fit(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _LABEL.fullmatch(name) or not _LABEL_VALUE.fullmatch(text):
                raise ValueError(
                    "a label has up to 63 lower-case letters, digits, - and _; its name begins with a letter"
                )
        return value

    @property
    def datasets_in(self) -> str:
        """The project of the datasets."""
        return self.dataset_project or self.project

    @property
    def streams(self) -> bool:
        """Whether rows go by the Storage Write API."""
        return self.mode is Mode.CDC or (self.mode is Mode.MERGE_FLUSH and self.use_storage_write_api)

    @property
    def metadata_columns(self) -> tuple[str, ...]:
        """The replicator's own columns in each table."""
        own = (SEQUENCE, IS_DELETED) if self.soft_deletes else (SEQUENCE,)
        return (*own, self.kafka_key_field_name) if self.kafka_key_field_name else own
