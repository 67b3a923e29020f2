"""Datasets and tables through BigQuery's API: there or not, made, looked at, removed. Each of it may be repeated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery import commits
from replicator_target_bigquery.config import IS_DELETED, SEQUENCE, BigQueryConfig, Mode
from replicator_target_bigquery.encoding import BATCH_ID, BATCH_TIME, STAGED_SEQUENCE, STAGING_COLUMNS
from replicator_target_bigquery.fields import Field, field_of
from replicator_target_bigquery.jobs import Jobs
from replicator_target_bigquery.key_column import key_field
from replicator_target_bigquery.names import STAGED_BEFORE, column_name, column_names
from replicator_target_bigquery.place import Place
from replicator_target_bigquery.primary_key import primary_key

if TYPE_CHECKING:
    from google.cloud import bigquery

_MOST_CLUSTERED = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A table as it stands.

    Attributes:
        fields: Its columns in order.
        rows: How many rows it has, without those being streamed.
        partition: The column it is partitioned by; empty when it is not, or by time of arrival.
        insists: Whether queries must name partitions.
        clustered: The columns it is clustered by.
        key: The columns it declares as its primary key, in order.
    """

    fields: tuple[Field, ...]
    rows: int
    partition: str
    insists: bool
    clustered: tuple[str, ...]
    key: tuple[str, ...] = ()

    def column(self, name: str) -> Field | None:
        """The column of that name, in any case."""
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)


def target_fields(schema: TableSchema, config: BigQueryConfig) -> tuple[Field, ...]:
    """The columns a new target table gets: the replicator's own, then the source's."""
    own = [Field(SEQUENCE, "INT64"), *([Field(IS_DELETED, "BOOL")] if config.soft_deletes else [])]
    if config.kafka_key_field_name and schema.primary_key:
        own.append(key_field(schema, config.kafka_key_field_name))
    return (*own, *source_fields(schema, config))


def source_fields(schema: TableSchema, config: BigQueryConfig) -> tuple[Field, ...]:
    """The columns of a target table that come from the source."""
    names = column_names(schema, config.metadata_columns)
    # Change ingestion writes a deleted row as its key alone.
    strict = set(schema.primary_key if config.mode is Mode.CDC else schema.names)
    return tuple(
        field_of(names[c.name], c.type, mode="NULLABLE" if c.nullable or c.name not in strict else "REQUIRED")
        for c in schema.columns
    )


def staging_fields(schema: TableSchema, config: BigQueryConfig) -> tuple[Field, ...]:
    """The columns of its staging table (seed 001): what the change is, the row before, the row after."""
    own = [f.name for f in STAGING_COLUMNS]
    names = column_names(schema, {*own, *config.metadata_columns})
    column_names(schema, [*own, *(STAGED_BEFORE + name for name in names.values())])
    before = [field_of(STAGED_BEFORE + names[c.name], c.type) for c in schema.columns]
    after = [field_of(names[c.name], c.type) for c in schema.columns]
    return (*STAGING_COLUMNS, *before, *after)


def clustering(schema: TableSchema) -> list[str]:
    """The first key columns BigQuery can cluster by, four at most."""
    names = [column_name(c.name) for c in schema.key_columns() if field_of("k", c.type).clusters]
    return names[:_MOST_CLUSTERED]


class Warehouse:
    """Safe from several threads; several calls for one table come one after another."""

    def __init__(self, client: Any, jobs: Jobs, config: BigQueryConfig) -> None:
        self._client = client
        self._jobs = jobs
        self._config = config
        self._ready: set[str] = set()
        self._lock = threading.Lock()

    def find(self, table_id: str, table: TableId) -> Found | None:
        """The table as it stands; None when it is not there."""
        from google.api_core.exceptions import NotFound

        def ask() -> Any:
            try:
                return self._client.get_table(table_id, retry=None)
            except NotFound:
                return None

        there = self._jobs.ask(f"looking at {table_id}", table, ask, place=table_id)
        return None if there is None else _found(there)

    def make_dataset(self, place: Place, table: TableId) -> None:
        """Dataset and commit log, unless they are there; asked once a run."""
        key = f"{place.project}.{place.dataset}"
        with self._lock:
            if key in self._ready:
                return
            self._create_dataset(key, table)
            log = self.definition(place.commits_id, commits.COLUMNS)
            log.clustering_fields = ["table_name"]
            self.create(log, table)
            self._ready.add(key)

    def _create_dataset(self, key: str, table: TableId) -> None:
        from google.api_core.exceptions import NotFound
        from google.cloud import bigquery

        def ask() -> Any:
            try:
                return self._client.get_dataset(key, retry=None)
            except NotFound:
                made = bigquery.Dataset(key)
                made.location = self._config.staging_bucket_location
                made.labels = dict(self._config.labels)
                if self._config.encryption_key_name:
                    made.default_encryption_configuration = self._encryption()
                return self._client.create_dataset(made, exists_ok=True, retry=None)

        there = self._jobs.ask(f"creating dataset {key}", table, ask, place=key)
        if str(there.location or "").lower() != self._config.staging_bucket_location.lower():
            raise NeedsUserError(
                f"dataset {key} is in {there.location}, stagingBucketLocation says {self._config.staging_bucket_location}",
                code="RPL-6521",
                table=str(table),
                hint="set `stagingBucketLocation` to the dataset's location, and use a bucket in it",
            )

    def has_dataset(self, place: Place, table: TableId) -> bool:
        """Whether the dataset is there with its commit log; creates nothing."""
        if f"{place.project}.{place.dataset}" in self._ready:
            return True
        return self.find(place.commits_id, table) is not None

    def make_target(self, place: Place, schema: TableSchema) -> None:
        """The target table, unless it is there."""
        table = self.definition(place.id, target_fields(schema, self._config))
        table.clustering_fields = clustering(schema) or None
        self._partition(table, schema)
        if self._config.mode is Mode.CDC:
            self._declare_key(table, schema)
        self.create(table, schema.table)

    def make_staging(self, place: Place, schema: TableSchema) -> tuple[Field, ...]:
        """The staging table with the schema's columns; one with others is replaced. Returns its columns in order."""
        from google.cloud import bigquery

        wanted = staging_fields(schema, self._config)
        found = self.find(place.staging_id, schema.table)
        if found is not None and _same(found.fields, wanted):
            return found.fields
        if found is not None:
            self.drop(place.staging_id, schema.table)
        table = self.definition(place.staging_id, wanted)
        table.time_partitioning = bigquery.TimePartitioning(
            type_="DAY", field=BATCH_TIME, expiration_ms=self._config.staging_expiration_hours * 3_600_000
        )
        table.clustering_fields = [BATCH_ID, STAGED_SEQUENCE]
        self.create(table, schema.table)
        return wanted

    def drop(self, table_id: str, table: TableId) -> None:
        """Remove a table; one that is not there is no error."""
        self._jobs.ask(
            f"dropping {table_id}",
            table,
            lambda: self._client.delete_table(table_id, not_found_ok=True, retry=None),
            place=table_id,
        )

    def cluster(self, place: Place, columns: Sequence[str], table: TableId) -> None:
        """Cluster the target by other columns, or by none; rows that are there stay as they lie."""

        def ask() -> None:
            there = self._client.get_table(place.id, retry=None)
            there.clustering_fields = list(columns) or None
            self._client.update_table(there, ["clustering_fields"], retry=None)

        self._jobs.ask(f"clustering {place.id}", table, ask, place=place.id)

    def create(self, table: bigquery.Table, of: TableId) -> None:
        """Make a table; one that is there is no error."""
        where = f"{table.project}.{table.dataset_id}.{table.table_id}"
        self._jobs.ask(
            f"creating {where}", of, lambda: self._client.create_table(table, exists_ok=True, retry=None), place=where
        )

    def definition(self, table_id: str, fields: Sequence[Field]) -> bigquery.Table:
        """A table with the labels and the key that all of the replicator's have; not made yet."""
        from google.cloud import bigquery

        made = bigquery.Table(table_id, schema=[bigquery.SchemaField.from_api_repr(f.to_api()) for f in fields])
        made.labels = dict(self._config.labels)
        if self._config.encryption_key_name:
            made.encryption_configuration = self._encryption()
        return made

    def _encryption(self) -> bigquery.EncryptionConfiguration:
        from google.cloud import bigquery

        return bigquery.EncryptionConfiguration(kms_key_name=self._config.encryption_key_name)

    def _declare_key(self, table: bigquery.Table, schema: TableSchema) -> None:
        from google.cloud.bigquery.table import PrimaryKey, TableConstraints

        table.table_constraints = TableConstraints(PrimaryKey(list(primary_key(schema))), None)
        if self._config.max_staleness:
            minutes, seconds = divmod(self._config.max_staleness, 60)
            hours, minutes = divmod(minutes, 60)
            table.max_staleness = f"0-0 0 {hours}:{minutes}:{seconds}"

    def _partition(self, table: bigquery.Table, schema: TableSchema) -> None:
        from google.cloud import bigquery

        if self._config.mode is Mode.MERGE_FLUSH:
            setting, wanted = "timestampPartitionFieldName", self._config.timestamp_partition_field_name or None
            if wanted is None:
                table.time_partitioning = bigquery.TimePartitioning(type_=self._config.partition_type.value)
        else:
            setting, wanted = "partitionBy", self._config.partition_by.get(str(schema.table))
        if wanted is None:
            return
        if wanted not in schema or field_of("p", schema[wanted].type).type not in {"DATE", "DATETIME", "TIMESTAMP"}:
            raise NeedsUserError(
                f"{setting} names {wanted!r}, which is no DATE, TIMESTAMP or DATETIME column",
                code="RPL-6522",
                table=str(schema.table),
                hint=f"name another column in `{setting}`, or none for this table",
            )
        table.time_partitioning = bigquery.TimePartitioning(
            type_=self._config.partition_type.value, field=column_name(wanted)
        )
        table.require_partition_filter = self._config.require_partition_filter


def _declared_key(table: Any) -> tuple[str, ...]:
    constraints = table.table_constraints
    return tuple(constraints.primary_key.columns) if constraints and constraints.primary_key else ()


def _same(found: Sequence[Field], wanted: Sequence[Field]) -> bool:
    return len(found) == len(wanted) and all(
        a.name == b.name and a.holds(b) for a, b in zip(found, wanted, strict=True)
    )


def _found(table: Any) -> Found:
    partitioning = table.time_partitioning or table.range_partitioning
    return Found(
        tuple(Field.from_api(f.to_api_repr()) for f in table.schema),
        int(table.num_rows or 0),
        str(getattr(partitioning, "field", None) or ""),
        bool(table.require_partition_filter),
        tuple(table.clustering_fields or ()),
        _declared_key(table),
    )
