"""Stages a batch of one table by a load job and merges it by one transaction, together with the table's progress."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import DataError, RetryableError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.batch.keyed_merge import KeyedMerge
from replicator_target_bigquery.batch.keyless_merge import KeylessMerge
from replicator_target_bigquery.batch.staging import Staged, stage
from replicator_target_bigquery.commit_log.commit import Commit
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.schema.schema_check import require_match
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.comparison import KeyColumn
from replicator_target_bigquery.sql.pruning import Pruning, add_keys, key_ranges
from replicator_target_bigquery.sql.script import LOST, UNMATCHED, UNSTAGED, Bounded
from replicator_target_bigquery.tables.target_table import TargetTable

register("bigquery.apply.begun")
_ROUNDS = 3
MOST_UNMATCHED: Final = 10_000
"""For how many distinct rows a table without a key may wait whose removal came first."""


class TableMerge:
    """Applies batches to one table. Called under the table's lock.

    Args:
        table: The table.
        begin: Called before each load; waits until the table may be loaded again.
    """

    def __init__(self, table: TargetTable, begin: Callable[[], None]) -> None:
        self._table = table
        self._begin = begin
        self._config = table.session.config

    def apply(self, changes: TableChanges) -> None:
        """Apply all changes with their progress; nothing when the table has them already."""
        if self._table.has(changes):
            return
        failpoint("bigquery.apply.begun")
        found = self._table.ensure_created(changes.schema)
        require_match(changes, self._table.session.layout.target_fields(changes.schema, found.fields), found)
        row = self._table.row(TableProgress.of(changes.identity), f"batch-{changes.identity}")
        if changes.rows == 0:
            self._table.commit(row)
            return
        self._begin()
        for round_ in range(_ROUNDS):
            try:
                self._run(changes, found, row, round_)
            except _UnstagedError:  # staged so long ago that the rows have expired
                continue
            self._count(changes)
            return
        raise RetryableError(
            "staged changes were gone before they were merged",
            code="RPL-6530",
            table=str(changes.table),
            hint="raise `stagingExpirationHours`; check that no other program deletes rows of staging tables",
        )

    def _run(self, changes: TableChanges, found: TableInfo, row: Commit, round_: int) -> None:
        names = column_names(changes.schema, self._config.metadata_columns)
        staged = stage(self._table, changes, names, round_)
        pruning = self._pruning(changes, found, names)
        columns = self._table.session.layout.source_fields(changes.schema, found.fields)
        checks = [(f"(SELECT COUNT(*) FROM {staged.query} AS S) != {staged.rows}", UNSTAGED)]
        first, measure = None, ""
        if changes.schema.primary_key:
            merge = self._keyed(changes, staged, columns, names, pruning)
            statements = [merge.statement()]
            checks += [(f"{merge.lost()} > 0", LOST)] if merge.unresolved else []
        else:
            statements, first = self._keyless(changes, staged, columns, pruning)
            if self._table.has_unmatched():
                measure = f"(SELECT IFNULL(SUM(_copies), 0) FROM {self._table.ref.unmatched_sql})"
        refuse = partial(_refused, changes=changes)
        waiting = self._table.commit(row, statements, checks=checks, refuse=refuse, first=first, measure=measure)
        if waiting is not None:
            self._table.session.context.metrics.gauge("dml.unmatched", int(waiting), table=changes.table)

    def _keyless(
        self, changes: TableChanges, staged: Staged, columns: tuple[Field, ...], pruning: Pruning
    ) -> tuple[list[str], Bounded | None]:
        """The statements of a batch of a table without a key, and the one that stores removals whose rows are not there."""
        table = self._table
        if changes.unordered:
            table.ensure_unmatched()
        merge = KeylessMerge(
            table.ref.sql,
            staged.query,
            columns,
            inserts_only=changes.inserts_only,
            pruning=pruning,
            soft_deletes=self._config.soft_deletes,
            unmatched=table.ref.unmatched_sql if table.has_unmatched() else "",
        )
        if not merge.unmatched:
            return [merge.statement()], None
        statements = [merge.statement(), merge.forget_matched()]
        if changes.inserts_only or not changes.unordered:
            return statements, None
        excess = f"(SELECT COUNT(*) FROM {merge.unmatched}) > {MOST_UNMATCHED}"
        return statements, Bounded(merge.store_unmatched(), excess, UNMATCHED)

    def _keyed(
        self,
        changes: TableChanges,
        staged: Staged,
        columns: tuple[Field, ...],
        names: dict[str, str],
        pruning: Pruning,
    ) -> KeyedMerge:
        schema = changes.schema
        by_name = {c.name: c for c in columns}
        keys = tuple(KeyColumn(by_name[names[c.name]], c.nullable) for c in schema.key_columns())
        lacking = {name for batch in changes.batches() for name in batch.unchanged}
        places = tuple((names[name], place) for place, name in enumerate(schema.names, 1) if name in lacking)
        config = self._config
        return KeyedMerge(
            self._table.ref.sql,
            staged.query,
            columns,
            keys,
            pruning,
            places,
            config.soft_deletes,
            config.kafka_key_field_name,
        )

    def _pruning(self, changes: TableChanges, found: TableInfo, names: dict[str, str]) -> Pruning:
        """Ranges of the keys a batch touches, of the first key column and of the partitioning one."""
        ranges = key_ranges(changes.schema, found, names)
        add_keys(ranges, changes)
        return Pruning(tuple(ranges.values()), found.required_filter)

    def _count(self, changes: TableChanges) -> None:
        metrics = self._table.session.context.metrics
        metrics.count("bigquery.batches", table=changes.table)
        metrics.count("bigquery.rows_staged", changes.rows, table=changes.table)


class _UnstagedError(Exception):
    """Staged rows have expired."""


def _refused(outcome: str, changes: TableChanges) -> Exception:
    if outcome == UNSTAGED:
        return _UnstagedError()
    table, position = str(changes.table), str(changes.identity.position)
    if outcome == UNMATCHED:
        return DataError(
            f"more than {MOST_UNMATCHED} different rows were updated or deleted in one partition of the log, and their inserts"
            " were read from no other partition",
            code="RPL-6532",
            table=table,
            position=position,
            hint="give the records keys (Debezium: message.key.columns) or the topic one partition, let the connector snapshot the table again, and start the pipeline under another `name` with another `datasetName`",
        )
    if changes.overlap:
        return SnapshotNeededError(
            "an update does not carry all columns of a row that moved while the table was copied",
            code="RPL-6534",
            table=table,
            position=position,
            hint="nothing to do: the table is copied again",
        )
    return DataError(
        "updates do not carry columns whose old values the target's rows should have, but it has no such rows",
        code="RPL-6533",
        table=table,
        position=position,
        hint="another program removed rows at the target: take the table out of `tables`, run once and put it in again: it is copied again",
    )
