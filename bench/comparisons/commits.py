"""How long a commit to a Delta table takes after 10, 1,000 and 100,000 commits: us, and `deltalake` appending a row.

A long log is made by hand, in seconds instead of hours: a checkpoint and its commit get a high version, and files with the
names of all versions before it are put beside them. Whoever lists the log meets as many files as if all had been committed.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import deltalake
import pyarrow as pa
from pyspark.sql import SparkSession

from bench.comparisons.turns import Plan, scratch
from bench.measure import Book, Measured
from replicator_sdk.datatype import INT64
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.schema.table_definition import TableDefinition
from replicator_target_delta.schema.table_form import TableForm
from tests.services.spark.session import settings

COMMITS: Final = "commits"
LENGTHS: Final = (10, 1_000, 100_000)
PEER: Final = "deltalake"
_TIMES: Final = 20
_TABLE: Final = TableSchema(TableId("bench", "visits"), (Column("id", INT64, nullable=False),), ("id",))


def commits(plan: Plan, book: Book) -> None:
    """Each length on tables of its own; the median of twenty commits a round."""
    session = SparkSession.builder.config(map={**settings(), "spark.master": "local[2]"}).getOrCreate()
    try:
        for number in range(plan.rounds):
            for length in LENGTHS:
                for side, committing in (("ours", _ours(session)), (PEER, _peer)):
                    with scratch(plan.folder / f"{side}-{length}") as folder:
                        milliseconds = 1000 * statistics.median(_timed(committing, folder, length))
                    book.add([Measured(COMMITS, side, what(length), milliseconds, number)])
    finally:
        session.stop()


def what(length: int) -> str:
    """The number's name in the book."""
    return f"ms, a commit after {length:,}"


def _timed(committing: Callable[[Path], Callable[[], None]], folder: Path, length: int) -> list[float]:
    commit = committing(folder)
    commit()
    _lengthen(folder / "_delta_log", length)
    commit = committing(folder)
    commit()  # reads the log once, as a run does that starts
    found = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        commit()
        found.append(time.perf_counter() - began)
    return found


def _ours(session: SparkSession) -> Callable[[Path], Callable[[], None]]:
    """Commits of the target's own log, without data files: only the log is measured."""

    def committing(folder: Path) -> Callable[[], None]:
        log = TableLog(session, str(folder))
        log.forget()

        def commit() -> None:
            transaction = log.begin()
            metadata = None
            if transaction.state.version < 0:
                metadata = TableDefinition.create(_TABLE, TableForm()).to_metadata()
            transaction.commit({}, writer="bench", metadata=metadata)
            if metadata is not None:
                log.checkpoint(0)

        return commit

    return committing


def _peer(folder: Path) -> Callable[[], None]:
    row = pa.table({"id": pa.array([1], pa.int64())})

    def commit() -> None:
        new = not (folder / "_delta_log").exists()
        deltalake.write_deltalake(str(folder), row, mode="append")
        if new:
            deltalake.DeltaTable(str(folder)).create_checkpoint()

    return commit


def _lengthen(log: Path, length: int) -> None:
    """Give the table's only version the number `length`."""
    for file in sorted(log.iterdir()):
        if file.is_file() and file.name.startswith(f"{0:020}"):
            file.rename(log / file.name.replace(f"{0:020}", f"{length:020}"))
    last = log / "_last_checkpoint"
    pointer = json.loads(last.read_text())
    pointer.pop("checksum", None)
    last.write_text(json.dumps({**pointer, "version": length}))
    for version in range(length):
        (log / f"{version:020}.json").write_text("{}")
