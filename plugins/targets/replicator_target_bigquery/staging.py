"""Brings a batch into the staging table by one load job (seed 001), once, whatever answers get lost."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.failpoint import failpoint, register
from replicator_target_bigquery.encoding import BATCH_ID, BATCH_TIME, BatchStamp, in_order, staged_batches
from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.jobs import job_name, now_microseconds
from replicator_target_bigquery.pruning import utc_literal
from replicator_target_bigquery.spreading import upload_rows
from replicator_target_bigquery.sql.text import text
from replicator_target_bigquery.table import TargetTable
from replicator_target_bigquery.uploads import Upload

if TYPE_CHECKING:
    from google.cloud import bigquery

register("bigquery.staging.uploaded", "bigquery.staging.loaded")
_MOMENT = "batch_time"


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch in the staging table.

    Attributes:
        stamp: What marks its rows.
        rows: How many there must be.
        query: The rows, as a parenthesised query.
    """

    stamp: BatchStamp
    rows: int
    query: str


def stage(table: TargetTable, changes: TableChanges, names: dict[str, str], round_: int) -> Staged:
    """Load the batch into the staging table, or find it there.

    Args:
        table: Where it goes.
        changes: The batch.
        names: Source column → its name at the target.
        round_: Which time the batch is staged; raised only when rows of an earlier time are gone again.
    """
    session, place = table.session, table.place
    fields = session.warehouse.make_staging(place, changes.schema)
    batch = _batch_id(table, changes, round_)
    stamp = BatchStamp(batch, now_microseconds())
    upload = Upload(
        session.storage,
        session.jobs,
        session.config.staging_bucket,
        f"{session.owner}/{place.dataset}/{place.table}",
        changes.table,
    )
    try:
        upload_rows(upload, _ordered(changes, names, stamp, fields), changes.nbytes, session)
        failpoint("bigquery.staging.uploaded")
        name = job_name(place.dataset, place.table, "stage", batch, of=f"{session.owner} {place.staging_id} {batch}")
        config = load_config(fields, labels={_MOMENT: str(stamp.moment)}, encryption=session.config.encryption_key_name)
        job = session.jobs.load(
            name, upload.uris, place.staging_id, config, f"loading changes of {place.id}", changes.table
        )
        failpoint("bigquery.staging.loaded")
    finally:
        upload.remove()
    stamp = BatchStamp(batch, int(job.labels.get(_MOMENT, stamp.moment)))
    query = (
        f"(SELECT * FROM {place.staging_sql}"
        f" WHERE {BATCH_TIME} = {utc_literal(stamp.moment)} AND {BATCH_ID} = {text(stamp.batch_id)})"
    )
    return Staged(stamp, upload.rows, query)


def load_config(
    fields: Sequence[Field], *, labels: dict[str, str] | None = None, encryption: str = ""
) -> bigquery.LoadJobConfig:
    """How Parquet files are added to a table that is there with these columns."""
    from google.cloud import bigquery
    from google.cloud.bigquery.format_options import ParquetOptions

    parquet = ParquetOptions()  # type: ignore[no-untyped-call]
    parquet.enable_list_inference = True
    config: Any = bigquery.LoadJobConfig(
        source_format="PARQUET",
        write_disposition="WRITE_APPEND",
        create_disposition="CREATE_NEVER",
        schema=[bigquery.SchemaField.from_api_repr(f.to_api()) for f in fields],
        parquet_options=parquet,
        labels=dict(labels or {}),
    )
    if encryption:
        config.destination_encryption_configuration = bigquery.EncryptionConfiguration(kms_key_name=encryption)
    made: bigquery.LoadJobConfig = config
    return made


def _batch_id(table: TargetTable, changes: TableChanges, round_: int) -> str:
    """The batch's identity, and from where it goes on: a table copied anew sees the same changes once more."""
    facts = f"{changes.identity.position} {changes.schema.fingerprint} {table.standing().revision}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:8]
    return f"{changes.identity}-{digest}" + (f"-{round_}" if round_ else "")


def _ordered(
    changes: TableChanges, names: dict[str, str], stamp: BatchStamp, fields: Sequence[Field]
) -> Iterator[pa.Table]:
    for rows in staged_batches(changes, names, stamp):
        yield in_order(rows, fields)
