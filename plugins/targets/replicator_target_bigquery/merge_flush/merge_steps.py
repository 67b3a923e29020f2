"""Steps 4, 5 and 8 of a merge flush: what was streamed can be read, is merged in one transaction with its progress, and cleaned."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Final

from replicator_sdk.batch import BatchIdentity
from replicator_sdk.errors import ReplicatorError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.merge_flush.intermediate.key_column import key_field
from replicator_target_bigquery.merge_flush.intermediate.tables import IntermediateTable
from replicator_target_bigquery.merge_flush.statements import FlushMerge, clean
from replicator_target_bigquery.sql.pruning import KeyRanges, Pruning
from replicator_target_bigquery.sql.script import UNSTAGED
from replicator_target_bigquery.tables.target_table import TargetTable

register("merge_flush.merge.before", "merge_flush.merge.after", "merge_flush.cleaned")
_READABLE_TRIES: Final = 6
_READABLE_SECONDS: Final = 1.0


@dataclass(slots=True)
class Batch:
    """The rows of one batch number.

    Attributes:
        number: The batch number.
        rows: How many were streamed.
        identity: Of all changes in it; None while there are none.
        since: When the first came, on this process's clock.
        streaming: Whether rows with its number are on their way.
        ranges: Hold every key in it, by the source's names; of the columns that say which blocks a merge reads.
    """

    number: int
    rows: int = 0
    identity: BatchIdentity | None = None
    since: float = field(default_factory=time.monotonic)
    streaming: bool = False
    ranges: dict[str, KeyRanges] = field(default_factory=dict)

    def add(self, rows: int, identity: BatchIdentity) -> None:
        """Count changes that were streamed."""
        if self.identity is None:
            self.identity, self.since = identity, time.monotonic()
        else:
            self.identity = replace(identity, first_sequence=self.identity.first_sequence)
        self.rows += rows


class MergeSteps:
    """Merges the batches of one table, one at a time."""

    def __init__(self, table: TargetTable) -> None:
        self._table = table
        self._config = table.session.config

    def run(self, intermediate: IntermediateTable, batch: Batch) -> None:
        """Steps 4 and 5: once all that was streamed can be read, it is merged."""
        assert batch.identity is not None
        merge = self._statement(intermediate, batch)
        checks = [(f"{merge.rows()} != {batch.rows}", UNSTAGED)] if batch.rows else []
        statements = [merge.statement()] if batch.rows else []
        for tries in range(_READABLE_TRIES):
            what = f"flush-{batch.identity}" + (f"-{tries}" if tries else "")  # a job that ran never runs again
            failpoint("merge_flush.merge.before")
            try:
                with self._table.lock:
                    row = self._table.row(TableProgress.of(batch.identity), what)
                    self._table.commit(row, statements, checks=checks, refuse=lambda _: _UnreadableError())
            except _UnreadableError:
                self._table.session.jobs.pause(_READABLE_SECONDS * 2**tries)
                if self._table.session.jobs.is_stopped:
                    break
                continue
            failpoint("merge_flush.merge.after")
            self._table.session.context.metrics.count("bigquery.merges", table=self._table.table)
            return
        raise RetryableError(
            "streamed rows cannot be read yet, so that they are not merged",
            code="RPL-6609",
            table=str(self._table.table),
            hint="nothing to do: they are streamed again; check that no other program changes intermediate tables",
        )

    def clean(self, intermediate: IntermediateTable, number: int) -> None:
        """Step 8. A failure is ignored: the next clean-up, or the end of the table, deletes the rows."""
        session = self._table.session
        try:
            session.jobs.read(clean(intermediate.sql, number), f"cleaning {intermediate.id}", self._table.table)
        except ReplicatorError:
            session.context.metrics.count("bigquery.cleanups_failed", table=self._table.table)
        failpoint("merge_flush.cleaned")

    def _statement(self, intermediate: IntermediateTable, batch: Batch) -> FlushMerge:
        config, schema = self._config, intermediate.schema
        with self._table.lock:
            found = self._table.found()
        required_filter = found.required_filter if found is not None else None
        return FlushMerge(
            self._table.ref.sql,
            intermediate.sql,
            batch.number,
            key_field(schema, config.kafka_key_field_name),
            self._table.session.layout.source_fields(schema),
            config.upsert_enabled,
            config.delete_enabled,
            config.partition_type if config.big_query_partition_decorator else None,
            pruning=Pruning(tuple(batch.ranges.values()), required_filter),
            soft_deletes=config.soft_deletes,
        )


class _UnreadableError(Exception):
    """Not all streamed rows can be read yet."""
