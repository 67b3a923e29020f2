"""Finds, creates and drops datasets and tables through BigQuery's API; each call may be repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log import commit as commits
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.table_info import TableInfo, milliseconds
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.tables.owner_label import OWNER, digest

if TYPE_CHECKING:
    from google.cloud import bigquery


LISTED_SECONDS: Final = 60.0
"""For how long a list of a dataset's tables is used."""
_PAGE: Final = 1000


class Catalogue:
    """Datasets and tables of a run. Safe from several threads; calls for one table must not overlap.

    Args:
        client: Google's client.
        jobs: Sends requests.
        config: The settings.
        owner: The replicator, which datasets that it creates name as theirs; only needed to create and drop them.
    """

    def __init__(self, client: Any, jobs: Jobs, config: BigQueryConfig, owner: str = "") -> None:
        self._client = client
        self._jobs = jobs
        self._config = config
        self._owner = owner
        self._ready: set[str] = set()
        self._found: set[str] = set()
        self._logs: dict[str, int] = {}
        self._listed: dict[str, tuple[float, dict[str, int]]] = {}
        self._listing = threading.Lock()
        self._lock = threading.Lock()

    def find(self, table_id: str, table: TableId) -> TableInfo | None:
        """What BigQuery reports of the table; None when it does not exist."""
        from google.api_core.exceptions import NotFound

        def ask() -> Any:
            try:
                return self._client.get_table(table_id, retry=None)
            except NotFound:
                return None

        there = self._jobs.request(f"looking at {table_id}", table, ask, place=table_id)
        return None if there is None else TableInfo.from_api(there)

    def ensure_dataset(self, ref: TableRef, table: TableId) -> None:
        """Create the dataset and its commit log unless they exist; checked once a run."""
        key = f"{ref.project}.{ref.dataset}"
        with self._lock:
            if key in self._ready:
                return
            self._create_dataset(key, table)
            log = self.definition(ref.commits_id, commits.COLUMNS)
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
                made.labels = {**self._config.labels, OWNER: digest(self._owner)}
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

    def has_dataset(self, ref: TableRef, table: TableId) -> bool:
        """Whether the dataset exists with its commit log; creates nothing."""
        key = f"{ref.project}.{ref.dataset}"
        if key not in self._ready and key not in self._found:
            if self.find(ref.commits_id, table) is None:
                return False
            self._found.add(key)
        return True

    def forget(self, ref: TableRef) -> None:
        """The dataset was dropped."""
        key = f"{ref.project}.{ref.dataset}"
        with self._lock:
            self._ready.discard(key)
            self._found.discard(key)
            self._logs.pop(key, None)

    def tables(self, ref: TableRef, of: TableId) -> list[str] | None:
        """The names of all tables and views of the dataset; None when it does not exist."""
        found = self._list(f"{ref.project}.{ref.dataset}", of)
        return None if found is None else list(found)

    def log_created(self, ref: TableRef, of: TableId) -> int:
        """When the dataset's commit log was created, in milliseconds since 1970; asked once a run. 0 when there is none."""
        key = f"{ref.project}.{ref.dataset}"
        if key not in self._logs:
            found = self.find(ref.commits_id, of)
            if found is None:
                return 0
            self._logs[key] = found.created
        return self._logs[key]

    def created(self, ref: TableRef, of: TableId) -> int:
        """When the table was created, by a list of the dataset's tables that may be a minute old; 0 when it is not in there.

        One request, which is free, answers for all tables of the dataset.
        """
        key = f"{ref.project}.{ref.dataset}"
        with self._listing:
            listed_at, known = self._listed.get(key, (0.0, {}))
            if not known or time.monotonic() - listed_at >= LISTED_SECONDS:
                known = self._list(key, of) or {}
                self._listed[key] = time.monotonic(), known
        return known.get(ref.table, 0)

    def _list(self, key: str, of: TableId) -> dict[str, int] | None:
        """When each table and view of a dataset was created, as `TableInfo.created`; None when there is no such dataset."""
        from google.api_core.exceptions import NotFound

        def ask() -> dict[str, int] | None:
            try:
                tables = self._client.list_tables(key, page_size=_PAGE, retry=None)
                return {str(table.table_id): milliseconds(table.created) for table in tables}
            except NotFound:
                return None

        found: dict[str, int] | None = self._jobs.request(f"listing the tables of {key}", of, ask, place=key)
        return found

    def is_foreign(self, ref: TableRef, of: TableId) -> bool:
        """Whether the dataset exists and was created by an operator, another program or another replicator."""
        from google.api_core.exceptions import NotFound

        key = f"{ref.project}.{ref.dataset}"

        def ask() -> bool:
            try:
                labels = self._client.get_dataset(key, retry=None).labels
            except NotFound:
                return False
            return str(labels.get(OWNER)) != digest(self._owner)

        return bool(self._jobs.request(f"looking at {key}", of, ask, place=key))

    def drop_dataset(self, ref: TableRef, of: TableId) -> bool:
        """Drop an empty dataset; returns whether there is none now. One that does not exist is no error."""
        from google.api_core.exceptions import BadRequest

        key = f"{ref.project}.{ref.dataset}"

        def ask() -> bool:
            try:
                self._client.delete_dataset(key, delete_contents=False, not_found_ok=True, retry=None)
            except BadRequest:
                return False  # a table was created meanwhile, or it holds a routine or a model
            return True

        return bool(self._jobs.request(f"dropping dataset {key}", of, ask, place=key))

    def create_target(
        self, ref: TableRef, schema: TableSchema, layout: TableLayout, like: Sequence[Field] = ()
    ) -> None:
        """Create the target table; one that exists is no error.

        Args:
            ref: Its address.
            schema: Its schema.
            layout: What tables look like.
            like: The columns of a table that it takes the place of: arrays and JSON keep their forms.

        Raises:
            NeedsUserError: When the settings ask for what BigQuery cannot do with the table's columns.
        """
        table = self.definition(ref.id, layout.target_fields(schema, like))
        layout.define(table, schema)
        self.create(table, schema.table)

    def drop(self, table_id: str, table: TableId) -> None:
        """Drop a table; one that does not exist is no error."""
        self._jobs.request(
            f"dropping {table_id}",
            table,
            lambda: self._client.delete_table(table_id, not_found_ok=True, retry=None),
            place=table_id,
        )

    def cluster(self, ref: TableRef, columns: Sequence[str], table: TableId) -> None:
        """Cluster the target by other columns, or by none; existing rows are not rewritten."""

        def ask() -> None:
            there = self._client.get_table(ref.id, retry=None)
            there.clustering_fields = list(columns) or None
            self._client.update_table(there, ["clustering_fields"], retry=None)

        self._jobs.request(f"clustering {ref.id}", table, ask, place=ref.id)

    def create(self, table: bigquery.Table, of: TableId) -> None:
        """Create a table; one that exists is no error."""
        where = f"{table.project}.{table.dataset_id}.{table.table_id}"
        self._jobs.request(
            f"creating {where}", of, lambda: self._client.create_table(table, exists_ok=True, retry=None), place=where
        )

    def definition(self, table_id: str, fields: Sequence[Field]) -> bigquery.Table:
        """A table with the labels and the encryption key of all the replicator's tables; not created yet."""
        from google.cloud import bigquery

        made = bigquery.Table(table_id, schema=[bigquery.SchemaField.from_api_repr(f.to_api()) for f in fields])
        made.labels = dict(self._config.labels)
        if self._config.encryption_key_name:
            made.encryption_configuration = self._encryption()
        return made

    def _encryption(self) -> bigquery.EncryptionConfiguration:
        from google.cloud import bigquery

        return bigquery.EncryptionConfiguration(kms_key_name=self._config.encryption_key_name)
