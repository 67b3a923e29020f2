"""Reports before a start what the target can hold, whether it may be written, and what a batch costs at most."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from replicator_sdk.discovery.assessment import (
    Assessment,
    Finding,
    Severity,
    TableAssessment,
    TableAssessor,
)
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.api.clients import Clients
from replicator_target_bigquery.api.diagnosis import failed_request, is_transient
from replicator_target_bigquery.assessment.columns import column_assessments, has_two_forms, kept_forms
from replicator_target_bigquery.assessment.cost import merge_cost
from replicator_target_bigquery.assessment.streaming_probe import StreamingProbe
from replicator_target_bigquery.batch.staging_rows import staging_fields
from replicator_target_bigquery.cdc.layout import CdcLayout, primary_key
from replicator_target_bigquery.config import BigQueryConfig, Mode
from replicator_target_bigquery.merge_flush.layout import MergeFlushLayout
from replicator_target_bigquery.merge_flush.requirements import require_key
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout, clustering
from replicator_target_bigquery.schema.names import column_name, table_name
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.table_ref import TableRef

_SECONDS: Final = 30.0
_LAYOUTS: Final[dict[Mode, type[TableLayout]]] = {Mode.CDC: CdcLayout, Mode.MERGE_FLUSH: MergeFlushLayout}


class BigQueryAssessor(TableAssessor):
    """Reads from BigQuery and Cloud Storage, and changes nothing there."""

    def __init__(self, config: BigQueryConfig) -> None:
        self._config = config
        self._layout = _LAYOUTS.get(config.mode, TableLayout)(config)
        self._clients: Clients | None = None
        self._streaming = StreamingProbe(config) if config.streams else None

    def assess(self) -> Assessment:
        """Credentials, the right to run jobs, the bucket and where it is, the dataset's location, and the way to stream."""
        if found := self._tried(self._may_run_jobs):
            return Assessment(tuple(found))
        found = self._tried(self._bucket_fits)
        if not found and self._config.dataset_name:
            found = self._tried(self._dataset_fits)
        if self._streaming is not None:
            found += self._tried(self._streaming.reach)
        return Assessment((*found, *merge_cost(self._config)))

    def assess_table(self, schema: TableSchema) -> TableAssessment:
        """How each column arrives, names that collide, and what one batch reads at most."""
        present = self._present(schema)
        columns = column_assessments(schema, self._layout, present)
        cdc = self._config.mode is Mode.CDC
        keyless = _undeclared(schema) if cdc else self._keyless(schema)
        findings = [*self._names(schema), *keyless, *_unclustered(schema)]
        findings += kept_forms(schema, self._layout, present)
        if self._streaming is not None and all(f.severity is not Severity.ERROR for f in findings):
            findings += self._tried(lambda: self._may_stream(schema))
        if not cdc and all(f.severity is not Severity.ERROR for f in findings):
            findings += [f for f in self._tried(lambda: self._estimate(schema)) if f.severity is not Severity.ERROR]
        return TableAssessment(schema.table, columns, tuple(findings))

    def close(self) -> None:
        """Close the clients."""
        if self._clients is not None:
            self._clients.close()
            self._clients = None
        if self._streaming is not None:
            self._streaming.close()

    def _connected(self) -> Clients:
        if self._clients is None:
            self._clients = Clients(self._config)
        return self._clients

    def _tried(self, check: Callable[[], list[Finding]]) -> list[Finding]:
        """The findings of a check; its failure is one."""
        try:
            return check()
        except ReplicatorError as err:
            return [_failed(err)]
        except Exception as err:  # noqa: BLE001 - an assessment reports whatever is wrong
            if is_transient(err):
                where = self._config.api_endpoint or "bigquery.googleapis.com"
                return [
                    Finding(
                        "unreachable",
                        Severity.ERROR,
                        f"{where} or Cloud Storage does not answer",
                        "nothing can be replicated",
                        "check the network, `apiEndpoint` and `storageEndpoint`",
                        code="RPL-6511",
                    )
                ]
            return [_failed(failed_request(err, "asking BigQuery", ""))]

    def _may_run_jobs(self) -> list[Finding]:
        self._dry_run("SELECT 1")
        return []

    def _bucket_fits(self) -> list[Finding]:
        name = self._config.staging_bucket
        bucket: Any = self._connected().storage.lookup_bucket(name, timeout=_SECONDS, retry=None)
        if bucket is None:
            return [
                Finding(
                    "bucket_missing",
                    Severity.ERROR,
                    f"the bucket {name} does not exist, or may not be seen",
                    "no row can be loaded",
                    "create it, in the datasets' location, or grant storage.buckets.get on it",
                    fix=f"gcloud storage buckets create gs://{name} --location={self._config.staging_bucket_location}",
                    code="RPL-6514",
                )
            ]
        location = str(bucket.location or "").lower()
        if location and location != self._config.staging_bucket_location.lower() and not self._config.storage_endpoint:
            return [
                Finding(
                    "bucket_elsewhere",
                    Severity.ERROR,
                    f"the bucket is in {location}, stagingBucketLocation says {self._config.staging_bucket_location}",
                    "BigQuery loads only from buckets in a dataset's location",
                    "set `stagingBucketLocation` to the bucket's location",
                    code="RPL-6521",
                )
            ]
        return []

    def _dataset_fits(self) -> list[Finding]:
        from google.api_core.exceptions import NotFound

        where = f"{self._config.datasets_in}.{table_name(self._config.dataset_name)}"
        try:
            there: Any = self._connected().bigquery.get_dataset(where, retry=None, timeout=_SECONDS)
        except NotFound:
            return []
        if str(there.location or "").lower() == self._config.staging_bucket_location.lower():
            return []
        return [
            Finding(
                "dataset_elsewhere",
                Severity.ERROR,
                f"dataset {where} is in {there.location}, stagingBucketLocation says {self._config.staging_bucket_location}",
                "no row can be loaded into it",
                "use a bucket in the dataset's location and set `stagingBucketLocation` to it",
                code="RPL-6521",
            )
        ]

    def _may_stream(self, schema: TableSchema) -> list[Finding]:
        assert self._streaming is not None
        ref = TableRef.of(schema.table, self._config)
        return self._streaming.writes(ref, schema.table, self._connected().bigquery)

    def _estimate(self, schema: TableSchema) -> list[Finding]:
        """What a MERGE reads when every block is touched, by a dry run; no finding for a table that does not exist yet."""
        from google.api_core.exceptions import GoogleAPICallError

        ref = TableRef.of(schema.table, self._config)
        columns = ", ".join(f"`{f.name}`" for f in self._layout.target_fields(schema))
        try:
            job = self._dry_run(f"SELECT {columns} FROM {ref.sql}")
        except GoogleAPICallError:
            return []
        size = int(job.total_bytes_processed or 0)
        return [
            Finding(
                "merge_estimate",
                Severity.INFO,
                f"a MERGE of {ref.id} reads {size:,} bytes when a batch touches all of it",
                "BigQuery bills bytes read; batches of neighbouring keys read less",
                "raise `loadInterval` to merge less often",
                table=schema.table,
            )
        ]

    def _present(self, schema: TableSchema) -> tuple[Field, ...]:
        """The columns of the table that exists; asked for only where arrays or JSON may keep a form, none when it cannot be known."""
        from google.api_core.exceptions import GoogleAPICallError

        if not any(has_two_forms(c.type) for c in schema.columns):
            return ()
        try:
            ref = TableRef.of(schema.table, self._config)
            found: Any = self._connected().bigquery.get_table(ref.id, retry=None, timeout=_SECONDS)
        except (ReplicatorError, GoogleAPICallError, OSError):
            return ()  # other checks report why
        return TableInfo.from_api(found).fields

    def _dry_run(self, sql: str) -> Any:
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False, use_legacy_sql=False)
        return self._connected().bigquery.query(sql, job_config=config, retry=None, job_retry=None, timeout=_SECONDS)

    def _keyless(self, schema: TableSchema) -> list[Finding]:
        if not self._config.merges:
            return _keyless(schema)
        try:
            require_key(schema)
        except ReplicatorError as err:
            return [_failed(err)]
        return []

    def _names(self, schema: TableSchema) -> list[Finding]:
        try:
            self._layout.target_fields(schema)
            if self._config.mode is Mode.BATCH:
                staging_fields(schema, self._layout)
            ref = TableRef.of(schema.table, self._config)
        except ReplicatorError as err:
            return [_failed(err)]
        changed = [c.name for c in schema.columns if column_name(c.name) != c.name]
        findings = []
        if ref.table != schema.table.table:
            findings.append(_renamed(schema, f"the table is named {ref.table} there"))
        if changed:
            findings.append(_renamed(schema, f"columns are named {', '.join(map(column_name, changed))} there"))
        return findings


def _renamed(schema: TableSchema, what: str) -> Finding:
    return Finding(
        "name_normalised",
        Severity.WARNING,
        what,
        "BigQuery's names hold letters, digits and underscores",
        "queries must use the new names",
        table=schema.table,
    )


def _failed(err: ReplicatorError) -> Finding:
    return Finding("refused", Severity.ERROR, err.message, "replication stops", err.hint, code=err.code)


def _undeclared(schema: TableSchema) -> list[Finding]:
    """Why BigQuery cannot apply changes by the key."""
    try:
        primary_key(schema)
    except ReplicatorError as err:
        return [_failed(err)]
    return []


def _keyless(schema: TableSchema) -> list[Finding]:
    if schema.primary_key:
        return []
    return [
        Finding(
            "no_key",
            Severity.WARNING,
            "the table has no key",
            "each batch with updates or deletes reads the whole table and compares whole rows",
            "give the table a primary key",
            table=schema.table,
        )
    ]


def _unclustered(schema: TableSchema) -> list[Finding]:
    missing = len(schema.primary_key) - len(clustering(schema))
    if missing <= 0:
        return []
    return [
        Finding(
            "key_not_clustered",
            Severity.INFO,
            f"the table is clustered by all but {missing} of its key columns",
            "a MERGE reads more blocks than it must",
            "BigQuery clusters by four columns at most, and not by floats, bytes and times",
            table=schema.table,
        )
    ]
