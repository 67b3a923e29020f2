"""Stages a batch of one table by a load job and merges it by one transaction, together with the table's progress."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

from replicator_sdk.batch import TableChanges
from replicator_sdk.errors import DataError, RetryableError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.batch.keyed_merge import KeyedMerge
from replicator_target_bigquery.batch.keyless_merge import KeylessMerge
from replicator_target_bigquery.batch.staging import Staged, Touched, stage, touched
from replicator_target_bigquery.commit_log.commit import Commit
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.names import column_names
from replicator_target_bigquery.schema.schema_check import require_match
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.comparison import KeyColumn
from replicator_target_bigquery.sql.pruning import Pruning, key_ranges
from replicator_target_bigquery.sql.script import LOST, SPLIT, UNMATCHED, UNSTAGED, Bounded
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
        found = self.fitting(changes)
        row = self._table.row(TableProgress.of(changes.identity), f"batch-{changes.identity}")
        if changes.rows == 0:
            self._table.commit(row)
            return
        self._begin()
        names = column_names(changes.schema, self._config.metadata_columns)
        for round_ in range(_ROUNDS):
            staged = stage(self._table, changes, names, str(round_) if round_ else "")
            try:
                self._merge(changes, found, row, staged, touched(changes, key_ranges(changes.schema, found, names)))
            except _UnstagedError:  # staged so long ago that the rows have expired
                continue
            return
        raise _unstaged(changes)

    def replace_rows(self, changes: TableChanges, row: Commit) -> None:
        """Make the rows of some keys as `changes` says, however many the table has of each, and commit `row` with them.

        They are staged under a name of their own: rows that a run staged before it died may be others by now.
        """
        found = self.fitting(changes)
        self._begin()
        names = column_names(changes.schema, self._config.metadata_columns)
        staged = stage(self._table, changes, names, uuid.uuid4().hex)
        what = touched(changes, key_ranges(changes.schema, found, names))
        try:
            self._merge(changes, found, row, staged, what, replaces=True)
        except _UnstagedError:
            raise _unstaged(changes) from None

    def apply_staged(self, changes: TableChanges, row: Commit, staged: Staged, what: Touched) -> None:
        """Merge changes that executors have staged, with their progress.

        Args:
            changes: What they are; without batches.
            row: What is committed with them.
            staged: Where they are.
            what: What they touch.
        """
        try:
            self._merge(changes, self.fitting(changes), row, staged, what)
        except _UnstagedError:
            raise _unstaged(changes) from None

    def fitting(self, changes: TableChanges) -> TableInfo:
        """The target table, created when it does not exist.

        Raises:
            SchemaDriftError: When it cannot take the changes.
        """
        found = self._table.ensure_created(changes.schema)
        require_match(changes, self._table.session.layout.target_fields(changes.schema, found.fields), found)
        return found

    def _merge(
        self,
        changes: TableChanges,
        found: TableInfo,
        row: Commit,
        staged: Staged,
        what: Touched,
        *,
        replaces: bool = False,
    ) -> None:
        pruning = Pruning(tuple(what.ranges.values()), found.required_filter)
        columns = self._table.session.layout.source_fields(changes.schema, found.fields)
        checks = [(f"(SELECT COUNT(*) FROM {staged.query} AS S) != {staged.rows}", UNSTAGED)]
        first, measure = None, ""
        if changes.schema.primary_key:
            merge = self._keyed(changes, staged, columns, what.lacking, pruning)
            statements = [*([merge.clear()] if replaces else []), merge.statement()]
            checks += [(f"{merge.split()} > 0", SPLIT)] if what.partitions > 1 else []
            checks += [(f"{merge.lost()} > 0", LOST)] if merge.unresolved else []
        else:
            statements, first = self._keyless(changes, staged, columns, pruning)
            if self._table.has_unmatched():
                measure = f"(SELECT IFNULL(SUM(_copies), 0) FROM {self._table.ref.unmatched_sql})"
        refuse = partial(_refused, changes=changes)
        waiting = self._table.commit(row, statements, checks=checks, refuse=refuse, first=first, measure=measure)
        if waiting is not None:
            self._table.session.context.metrics.gauge("dml.unmatched", int(waiting), table=changes.table)
        self._count(changes)

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
        lacking: frozenset[str],
        pruning: Pruning,
    ) -> KeyedMerge:
        schema = changes.schema
        names = column_names(schema, self._config.metadata_columns)
        by_name = {c.name: c for c in columns}
        keys = tuple(KeyColumn(by_name[names[c.name]], c.nullable) for c in schema.key_columns())
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

    def _count(self, changes: TableChanges) -> None:
        metrics = self._table.session.context.metrics
        metrics.count("bigquery.batches", table=changes.table)
        metrics.count("bigquery.rows_staged", changes.rows, table=changes.table)


class _UnstagedError(Exception):
    """Staged rows have expired."""


def _unstaged(changes: TableChanges) -> RetryableError:
    return RetryableError(
        "staged changes were gone before they were merged",
        code="RPL-6530",
        table=str(changes.table),
        hint="raise `stagingExpirationHours`; check that no other program deletes rows of staging tables",
    )


def _refused(outcome: str, changes: TableChanges) -> Exception:
    if outcome == UNSTAGED:
        return _UnstagedError()
    table, position = str(changes.table), str(changes.identity.position)
    if outcome == SPLIT:
        return DataError(
            "keys have changes in several partitions of the log, whose order is unknown",
            code="RPL-6543",
            table=table,
            position=position,
            hint="have all records of a key written to one partition of one topic, let the source's connector snapshot its tables again,"
            " set the source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
        )
    if outcome == UNMATCHED:
        return DataError(
            f"more than {MOST_UNMATCHED} different rows were updated or deleted in one partition of the log, and their inserts"
            " were read from no other partition",
            code="RPL-6532",
            table=table,
            position=position,
            hint="give the records keys (Debezium: message.key.columns) or the topic one partition, let the connector snapshot its tables again,"
            " set the source's `startFrom` to the time when that snapshot began, then `replicator reset PIPELINE`: every table is emptied and filled from the topics",
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
        hint="another program removed rows at the target: copy the table again: `replicator table resync NAME TABLE --in-place`",
    )
