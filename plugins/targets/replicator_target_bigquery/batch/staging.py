"""Loads a batch into the staging table by one load job, exactly once even if answers are lost."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.batch import TableChanges
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableSchema
from replicator_target_bigquery.api.jobs import job_name, now_microseconds
from replicator_target_bigquery.batch.parallel_upload import upload_rows
from replicator_target_bigquery.batch.staging_rows import (
    BATCH_ID,
    BATCH_TIME,
    STAGED_SEQUENCE,
    BatchStamp,
    staged_batches,
    staging_fields,
)
from replicator_target_bigquery.load.parquet import load_config
from replicator_target_bigquery.load.uploads import Upload
from replicator_target_bigquery.schema.encoding import in_order
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.sql.pruning import utc_literal
from replicator_target_bigquery.sql.text import text
from replicator_target_bigquery.tables.target_table import TargetTable

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
        round_: How often the batch was staged before; raised only when its rows have expired.
    """
    session, ref = table.session, table.ref
    fields = ensure_staging_table(table, changes.schema)
    batch = _batch_id(table, changes, round_)
    stamp = BatchStamp(batch, now_microseconds())
    upload = Upload(
        session.storage,
        session.jobs,
        session.config.staging_bucket,
        f"{session.owner}/{ref.dataset}/{ref.table}",
        changes.table,
    )
    try:
        upload_rows(upload, _ordered(changes, names, stamp, fields, session.layout), changes.nbytes, session)
        failpoint("bigquery.staging.uploaded")
        name = job_name(ref.dataset, ref.table, "stage", batch, of=f"{session.owner} {ref.staging_id} {batch}")
        config = load_config(fields, labels={_MOMENT: str(stamp.moment)}, encryption=session.config.encryption_key_name)
        job = session.jobs.load(
            name, upload.uris, ref.staging_id, config, f"loading changes of {ref.id}", changes.table
        )
        failpoint("bigquery.staging.loaded")
    finally:
        upload.remove()
    stamp = BatchStamp(batch, int(job.labels.get(_MOMENT, stamp.moment)))
    query = (
        f"(SELECT * FROM {ref.staging_sql}"
        f" WHERE {BATCH_TIME} = {utc_literal(stamp.moment)} AND {BATCH_ID} = {text(stamp.batch_id)})"
    )
    return Staged(stamp, upload.rows, query)


def ensure_staging_table(table: TargetTable, schema: TableSchema) -> tuple[Field, ...]:
    """The staging table's columns in order; it is created, or replaced where it has other columns than the schema."""
    from google.cloud import bigquery

    catalogue, ref, config = table.session.catalogue, table.ref, table.session.config
    target = table.found()
    wanted = staging_fields(schema, table.session.layout, target.fields if target is not None else ())
    found = catalogue.find(ref.staging_id, schema.table)
    if found is not None and _same(found.fields, wanted):
        return found.fields
    if found is not None:
        catalogue.drop(ref.staging_id, schema.table)
    staging = catalogue.definition(ref.staging_id, wanted)
    staging.time_partitioning = bigquery.TimePartitioning(
        type_="DAY", field=BATCH_TIME, expiration_ms=config.staging_expiration_hours * 3_600_000
    )
    staging.clustering_fields = [BATCH_ID, STAGED_SEQUENCE]
    catalogue.create(staging, schema.table)
    return wanted


def _same(found: Sequence[Field], wanted: Sequence[Field]) -> bool:
    return len(found) == len(wanted) and all(
        a.name == b.name and a.holds(b) for a, b in zip(found, wanted, strict=True)
    )


def _batch_id(table: TargetTable, changes: TableChanges, round_: int) -> str:
    """The batch's identity and the revision it follows: a table that is copied again sees the same changes again."""
    facts = f"{changes.identity.position} {changes.schema.fingerprint} {table.state().revision}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:8]
    return f"{changes.identity}-{digest}" + (f"-{round_}" if round_ else "")


def _ordered(
    changes: TableChanges, names: dict[str, str], stamp: BatchStamp, fields: Sequence[Field], layout: TableLayout
) -> Iterator[pa.Table]:
    for rows in staged_batches(changes, names, stamp, layout.encoding(changes.table, fields)):
        yield in_order(rows, fields)
