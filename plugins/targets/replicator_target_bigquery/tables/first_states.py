"""Reads what the commit logs say of tables; of many tables of one dataset by one query, when a run begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.schema import TableId
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log.commit import CLAIMED, Commit, TableState
from replicator_target_bigquery.commit_log.statements import claim, read_rows, select
from replicator_target_bigquery.sql.table_ref import TableRef

_FRESH_SECONDS: Final = 60.0


class FirstStates:
    """Reads and claims tables: no older run writes a table that was read. Safe from several threads.

    The second table of a dataset that is asked about has all of them read. A state is given out once: who asks again
    wants what the log says now.

    Args:
        jobs: Runs queries.
        context: The run.
        owner: The replicator.
    """

    def __init__(self, jobs: Jobs, context: DeltaTargetContext, owner: str) -> None:
        self._jobs = jobs
        self._context = context
        self._owner = owner
        self._asked: dict[str, set[str]] = {}
        self._kept: dict[str, tuple[float, dict[str, list[Mapping[str, Any]]]]] = {}
        self._lock = threading.Lock()

    def read(self, ref: TableRef, table: TableId) -> TableState:
        """What the commit log says of the table; claimed for this run where an older run of the same owner wrote it last."""
        with self._lock:
            asked = self._asked.setdefault(ref.commits_id, set())
            is_first = ref.table not in asked
            asked.add(ref.table)
            if is_first and len(asked) > 1:
                rows = self._of_all(ref, table).pop(ref.table, None)
                if rows is not None:
                    return read_rows(rows, self._context.read_offset)
        return read_rows(self._query(ref, table, every_table=False), self._context.read_offset)

    def forget(self, ref: TableRef) -> None:
        """The dataset was dropped: what was read of its commit log holds no more."""
        with self._lock:
            self._kept.pop(ref.commits_id, None)
            self._asked.pop(ref.commits_id, None)

    def _of_all(self, ref: TableRef, table: TableId) -> dict[str, list[Mapping[str, Any]]]:
        """The rows of the dataset's tables that were not given out; empty once they are old."""
        if ref.commits_id not in self._kept:
            rows: dict[str, list[Mapping[str, Any]]] = {}
            for row in self._query(ref, table, every_table=True):
                rows.setdefault(row["table_name"], []).append(row)
            self._kept[ref.commits_id] = time.monotonic(), rows
        read_at, rows = self._kept[ref.commits_id]
        return rows if time.monotonic() - read_at < _FRESH_SECONDS else {}

    def _query(self, ref: TableRef, table: TableId, *, every_table: bool) -> list[Mapping[str, Any]]:
        row = Commit(0, CLAIMED, self._owner, self._context.epoch, f"claim-{self._context.run_id}", table)
        sql = f"{claim(ref, row, every_table=every_table)};\n{select(ref, every_table=every_table)}"
        what = f"reading the commits of {ref.commits_id if every_table else ref.id}"
        return self._jobs.read(sql, what, table)
