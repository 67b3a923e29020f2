"""What the BigQuery target costs us, against emulators: encoding, statements, and how much of a table a MERGE can touch.

Nothing here says how fast BigQuery is. The emulators share the machine; only the CPU of this process is counted.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from bench.comparisons.turns import Plan
from bench.data.order_changes import ORDERS, SHAPES, changes, rows_changed_by
from bench.measure import Book, Measured
from replicator_sdk.batch import BatchIdentity, ChangeBatch, TableChanges
from replicator_sdk.datatype import DATE, INT64, STRING
from replicator_sdk.offset import NumberOffset, Position
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.contexts import CountingMetrics, TestTargetContext
from replicator_target_bigquery.api.clients import Clients
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.batch.consumer import BatchMergeConsumer
from replicator_target_bigquery.batch.staging_rows import BatchStamp, staged_batches, staging_fields
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.load.uploads import Upload
from replicator_target_bigquery.schema.encoding import in_order
from replicator_target_bigquery.schema.layout import TableLayout
from tests.services.bigquery.emulators import BUCKET, LOCATION, PROJECT, Emulators, rows, start

STAGING, FLUSH, PRUNING = "bigquery-staging", "bigquery-flush", "bigquery-pruning"
PLAIN: Final = "pyarrow.parquet"
_DAYS: Final = 50
_FIRST: Final = date(2024, 1, 1)
_VISITS: Final = TableSchema(
    TableId("bench", "visits"),
    (Column("day", DATE, nullable=False), Column("id", INT64, nullable=False), Column("note", STRING)),
    ("id", "day"),
)


def bigquery(plan: Plan, book: Book) -> None:
    """All three, on emulators of their own."""
    emulators = start()
    try:
        _staging(emulators, plan, book)
        _flushes(emulators, book)
        _pruning(emulators, plan, book)
    finally:
        emulators.stop()


def _config(emulators: Emulators, **settings: object) -> BigQueryConfig:
    chosen = {
        "project": PROJECT, "dataset_name": f"b{uuid.uuid4().hex[:12]}", "staging_bucket": BUCKET,
        "staging_bucket_location": LOCATION, "load_interval": 0,
        "api_endpoint": emulators.bigquery_endpoint, "storage_endpoint": emulators.storage_endpoint,
    }  # fmt: skip
    return BigQueryConfig.model_validate({**chosen, **settings})


def _staging(emulators: Emulators, plan: Plan, book: Book) -> None:
    """From change batches to Parquet files in the bucket; beside it, pyarrow writing the same columns to memory."""
    config = _config(emulators)
    clients = Clients(config)
    jobs = Jobs(clients.bigquery, config, CountingMetrics())
    size = min(plan.rows, 500_000)  # a batch as it is gathered by default
    try:
        for number in range(plan.rounds):
            for shape in SHAPES:
                given = changes(shape, size)
                wall, cpu = time.monotonic(), time.process_time()
                upload = Upload(clients.storage, jobs, BUCKET, f"bench/{uuid.uuid4().hex}", ORDERS.table)
                upload.write(_staged(given, config))
                wall, cpu = time.monotonic() - wall, time.process_time() - cpu
                upload.remove()
                plain = _written_plainly(list(_staged(given, config)))
                book.add(
                    [
                        Measured(STAGING, "ours", f"rows per CPU second, {shape.name}", size / cpu, number),
                        Measured(STAGING, "ours", f"rows/s, {shape.name}", size / wall, number),
                        Measured(STAGING, PLAIN, f"rows per CPU second, {shape.name}", size / plain, number),
                        Measured(STAGING, "ours", f"÷ {PLAIN}, {shape.name}", plain / cpu, number),
                    ]
                )
    finally:
        clients.close()


def _staged(given: TableChanges, config: BigQueryConfig) -> Iterator[pa.Table]:
    layout = TableLayout(config)
    fields, names = staging_fields(ORDERS, layout), {name: name for name in ORDERS.names}
    for part in staged_batches(given, names, BatchStamp("1-1-1-1-bench", 0), layout.encoding(ORDERS.table, fields)):
        yield in_order(part, fields)


def _written_plainly(parts: list[pa.Table]) -> float:
    """CPU seconds of the least one could do: the finished columns, written by pyarrow as it writes by default."""
    began = time.process_time()
    with pq.ParquetWriter(io.BytesIO(), parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    return time.process_time() - began


def _flushes(emulators: Emulators, book: Book) -> None:
    """Statements that read or write a table, of one flush of one table, counted where they arrive."""
    for shape in SHAPES:
        consumer = _consumer(_config(emulators))
        consumer.apply_batch(rows_changed_by(changes(shape, 600)))  # it makes the tables
        for part, given in enumerate(_cut(changes(shape, 600), 2)):
            emulators.gate.clear()
            consumer.apply_batch(given)
            jobs = list(emulators.gate.jobs)
            statements = [s for job in jobs for s in job.sql.split(";\n") if "`" in s]
            loads = sum(job.kind == "load" for job in jobs)
            book.add(
                [
                    Measured(FLUSH, "ours", f"statements, {shape.name}", len(statements), part),
                    Measured(FLUSH, "ours", f"load jobs, {shape.name}", loads, part),
                ]
            )
        consumer.stop()


def _pruning(emulators: Emulators, plan: Plan, book: Book) -> None:
    """How much of a table of 50 days a MERGE of the last two days' changes leaves to be read.

    The emulator counts no bytes. So the literal conditions on the table are taken out of the very MERGE that was sent,
    and asked which partitions meet them; BigQuery reads those and no others. Of blocks within a partition, which
    clustering lets it skip too, this says nothing.
    """
    size = min(plan.rows, 500_000)
    config = _config(emulators, partition_by={"bench.visits": "day"})
    consumer = _consumer(config)
    consumer.apply_batch(_visits(1, np.arange(size, dtype=np.int64), size))
    emulators.gate.clear()
    consumer.apply_batch(_visits(2, np.arange(size - size // _DAYS, size, 7, dtype=np.int64), size))
    (script,) = [job.sql for job in emulators.gate.jobs if "MERGE" in job.sql]
    table = f"`{PROJECT}`.`{config.dataset_name}`.`visits`"
    days = f"SELECT T.day FROM {table} AS T WHERE {_literal_conditions(script)}"
    for side, chosen in (("ours", days), ("without literals", f"SELECT day FROM {table}")):
        ((partitions, held),) = rows(
            emulators, f"SELECT COUNT(DISTINCT day), COUNT(*) FROM {table} WHERE day IN ({chosen})"
        )
        book.add(
            [
                Measured(PRUNING, side, "partitions a MERGE reads, of 50", float(str(partitions)), 0),
                Measured(PRUNING, side, "rows in them", float(str(held)), 0),
            ]
        )
    consumer.stop()


def _literal_conditions(script: str) -> str:
    """What the MERGE asks of the target's rows alone."""
    text = next(part for part in script.split(";\n") if "MERGE" in part)
    merge = sqlglot.parse_one(text[text.index("MERGE") :], read="bigquery")
    conditions = merge.args["on"].flatten() if isinstance(merge.args["on"], exp.And) else [merge.args["on"]]
    alone = [c.sql("bigquery") for c in conditions if {column.table for column in c.find_all(exp.Column)} == {"T"}]
    return " AND ".join(alone) or "TRUE"


def _visits(position: int, key: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> TableChanges:
    """Inserts of those keys; each day has a fiftieth of the table's keys."""
    days = pa.array((key * _DAYS // size + (_FIRST - date(1970, 1, 1)) // timedelta(days=1)).astype(np.int32))
    columns = [days.cast(pa.date32()), pa.array(key), pa.array(key).cast(pa.string())]
    row = pa.StructArray.from_arrays(columns, fields=list(_VISITS.struct))
    op = pa.array(np.ones(len(key), np.int8))
    batch = ChangeBatch(_VISITS, op, row, None, key, sequence_numbers=key + position * size)
    return _as_one(_VISITS, [batch], position)


def _cut(given: TableChanges, parts: int) -> Iterator[TableChanges]:
    (batch,) = given.batches()
    step = len(batch) // parts
    for part in range(parts):
        yield _as_one(given.schema, [batch.slice(part * step, (part + 1) * step)], part + 2)


def _as_one(schema: TableSchema, batches: list[ChangeBatch], position: int) -> TableChanges:
    numbers = [b.sequence_numbers for b in batches if b.sequence_numbers is not None]
    identity = BatchIdentity(1, 1, int(numbers[0][0]), int(numbers[-1][-1]), Position(NumberOffset(position)))
    return TableChanges(schema, identity, batches, rows=sum(map(len, batches)), nbytes=sum(b.nbytes for b in batches))


def _consumer(config: BigQueryConfig) -> BatchMergeConsumer:
    return BatchMergeConsumer(config, TestTargetContext(NumberOffset.from_fields))
