"""Datasets and tables through BigQuery's API: there or not, made, looked at, removed. Each of it may be repeated."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log import commit as commits
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.table_ref import TableRef

if TYPE_CHECKING:
    from google.cloud import bigquery


class Catalogue:
    """Safe from several threads; several calls for one table come one after another."""

    def __init__(self, client: Any, jobs: Jobs, config: BigQueryConfig) -> None:
        self._client = client
        self._jobs = jobs
        self._config = config
        self._ready: set[str] = set()
        self._lock = threading.Lock()

    def find(self, table_id: str, table: TableId) -> TableInfo | None:
        """The table as it stands; None when it is not there."""
        from google.api_core.exceptions import NotFound

        def ask() -> Any:
            try:
                return self._client.get_table(table_id, retry=None)
            except NotFound:
                return None

        there = self._jobs.request(f"looking at {table_id}", table, ask, place=table_id)
        return None if there is None else TableInfo.from_api(there)

    def ensure_dataset(self, place: TableRef, table: TableId) -> None:
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

        there = self._jobs.request(f"creating dataset {key}", table, ask, place=key)
        if str(there.location or "").lower() != self._config.staging_bucket_location.lower():
            raise NeedsUserError(
                f"dataset {key} is in {there.location}, stagingBucketLocation says {self._config.staging_bucket_location}",
                code="RPL-6521",
                table=str(table),
                hint="set `stagingBucketLocation` to the dataset's location, and use a bucket in it",
            )

    def has_dataset(self, place: TableRef, table: TableId) -> bool:
        """Whether the dataset is there with its commit log; creates nothing."""
        if f"{place.project}.{place.dataset}" in self._ready:
            return True
        return self.find(place.commits_id, table) is not None

    def create_target(self, place: TableRef, schema: TableSchema, layout: TableLayout) -> None:
        """Create the target table; one that exists is no error.

        Raises:
            NeedsUserError: When the settings ask for what BigQuery cannot do with the table's columns.
        """
        table = self.definition(place.id, layout.target_fields(schema))
        layout.define(table, schema)
        self.create(table, schema.table)

    def drop(self, table_id: str, table: TableId) -> None:
        """Remove a table; one that is not there is no error."""
        self._jobs.request(
            f"dropping {table_id}",
            table,
            lambda: self._client.delete_table(table_id, not_found_ok=True, retry=None),
            place=table_id,
        )

    def cluster(self, place: TableRef, columns: Sequence[str], table: TableId) -> None:
        """Cluster the target by other columns, or by none; rows that are there stay as they lie."""

        def ask() -> None:
            there = self._client.get_table(place.id, retry=None)
            there.clustering_fields = list(columns) or None
            self._client.update_table(there, ["clustering_fields"], retry=None)

        self._jobs.request(f"clustering {place.id}", table, ask, place=place.id)

    def create(self, table: bigquery.Table, of: TableId) -> None:
        """Make a table; one that is there is no error."""
        where = f"{table.project}.{table.dataset_id}.{table.table_id}"
        self._jobs.request(
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
