"""Loads a batch into the staging table by one load job, exactly once even if answers are lost."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from replicator_sdk.batch import BatchIdentity, TableChanges
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
from replicator_target_bigquery.load.uploads import ROOT, Upload, UploadInTurn, try_to_delete
from replicator_target_bigquery.schema.encoding import RowEncoding, in_order
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.pruning import KeyRanges, add_keys, utc_literal
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


@dataclass(frozen=True, slots=True)
class Touched:
    """What the changes of a batch touch; picklable, small however many changes there are.

    Attributes:
        ranges: Of the columns that prune, by the source's names.
        lacking: The columns that some update lacks.
        partitions: In how many partitions of a slice the changes are; 1 where one stream is read.
    """

    ranges: dict[str, KeyRanges]
    lacking: frozenset[str] = frozenset()
    partitions: int = 1


def touched(changes: TableChanges, ranges: dict[str, KeyRanges]) -> Touched:
    """What these changes touch; `ranges` are extended."""
    add_keys(ranges, changes)
    return Touched(ranges, frozenset(name for batch in changes.batches() for name in batch.unchanged))


def stage(table: TargetTable, changes: TableChanges, names: dict[str, str], attempt: str) -> Staged:
    """Load the batch into the staging table, or find it there.

    Args:
        table: Where it goes.
        changes: The batch.
        names: Source column → its name at the target.
        attempt: Differs where the batch is to be staged again: its rows have expired, or others came by the same identity.
    """
    session = table.session
    fields = ensure_staging_table(table, changes.schema)
    stamp = BatchStamp(batch_id(table, changes.identity, changes.schema, attempt), now_microseconds())
    upload = upload_of(table)
    try:
        rows = in_files(changes, names, stamp, fields, session.layout.encoding(changes.table, fields))
        upload_rows(upload, rows, changes.nbytes, session)
        failpoint("bigquery.staging.uploaded")
        return load(table, upload, stamp, fields)
    finally:
        upload.remove()


def upload_of(table: TargetTable) -> Upload:
    """The files of a batch of the table, in a folder of their own."""
    session = table.session
    bucket, epoch = session.config.staging_bucket, session.context.epoch
    return UploadInTurn(session.storage, session.jobs, bucket, _folder(table), table.table, epoch=epoch)


def delete_files(table: TargetTable) -> None:
    """Delete what batches of the table have left in the bucket, as far as that is possible now."""
    session = table.session
    try_to_delete(session.storage, session.config.staging_bucket, f"{ROOT}/{_folder(table)}")


def _folder(table: TargetTable) -> str:
    return f"{table.session.owner}/{table.ref.dataset}/{table.ref.table}/changes"


def load(table: TargetTable, upload: Upload, stamp: BatchStamp, fields: Sequence[Field]) -> Staged:
    """Load files into the staging table, which has these columns; a load of this very batch that ran before counts.

    Without files, of changes that cancel each other, there is no job: BigQuery refuses one that names none.
    """
    session, ref, batch = table.session, table.ref, stamp.batch_id
    if uris := upload.uris:
        name = job_name(ref.dataset, ref.table, "stage", batch, of=f"{session.owner} {ref.staging_id} {batch}")
        config = load_config(fields, labels={_MOMENT: str(stamp.moment)}, encryption=session.config.encryption_key_name)
        job = session.jobs.load(name, uris, ref.staging_id, config, f"loading changes of {ref.id}", table.table)
        stamp = BatchStamp(batch, int(job.labels.get(_MOMENT, stamp.moment)))
    failpoint("bigquery.staging.loaded")
    query = (
        f"(SELECT * FROM {ref.staging_sql}"
        f" WHERE {BATCH_TIME} = {utc_literal(stamp.moment)} AND {BATCH_ID} = {text(stamp.batch_id)})"
    )
    return Staged(stamp, upload.rows, query)


def ensure_staging_table(table: TargetTable, schema: TableSchema) -> tuple[Field, ...]:
    """The staging table's columns in order; it is created, or replaced where it has other columns than the schema."""
    from google.cloud import bigquery

    catalogue, ref, config = table.session.catalogue, table.ref, table.session.config
    wanted = wanted_fields(table, schema)
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


def wanted_fields(table: TargetTable, schema: TableSchema) -> tuple[Field, ...]:
    """The columns that the staging table must have, in order."""
    target = table.found()
    return staging_fields(schema, table.session.layout, target.fields if target is not None else ())


def _same(found: Sequence[Field], wanted: Sequence[Field]) -> bool:
    return len(found) == len(wanted) and all(
        a.name == b.name and a.holds(b) for a, b in zip(found, wanted, strict=True)
    )


def batch_id(table: TargetTable, identity: BatchIdentity, schema: TableSchema, suffix: str = "") -> str:
    """The batch's identity and the revision it follows: a table that is copied again sees the same changes again."""
    facts = f"{identity.position} {schema.fingerprint} {table.state().revision}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:8]
    return f"{identity}-{digest}" + (f"-{suffix}" if suffix else "")


def in_files(
    changes: TableChanges, names: dict[str, str], stamp: BatchStamp, fields: Sequence[Field], encoding: RowEncoding
) -> Iterator[pa.Table]:
    """The rows of a batch as its files have them."""
    for rows in staged_batches(changes, names, stamp, encoding):
        yield in_order(rows, fields)
