"""Creates and drops the dataset of a database's tables."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId
from replicator_target_bigquery.schema.names import is_of_one_table, is_own_table
from replicator_target_bigquery.sql.script import FENCED, READY
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.sql.text import text
from replicator_target_bigquery.tables.owner_label import OWNER
from replicator_target_bigquery.tables.ownership import BigQueryOwnership
from replicator_target_bigquery.tables.target_table import Session

register("bigquery.database.emptied")
_OTHERS: Final = "others"
log = structlog.get_logger(__name__)


class DatabaseDDL:
    """Follows databases by datasets. Where `datasetName` names one dataset for all databases, nothing is done.

    A dataset is dropped only when the replicator created it and no table is in it but its own, which it wrote itself. It may
    be repeated.

    Args:
        session: What all tables share.
        forget: Called with the dataset once it has no commit log.
    """

    def __init__(self, session: Session, forget: Callable[[TableRef], None]) -> None:
        self._session = session
        self._catalogue = session.catalogue
        self._config = session.config
        self._forget = forget

    def apply(self, event: DDLEvent) -> None:
        """Apply a CREATE_DATABASE or DROP_DATABASE."""
        if self._config.dataset_name:
            return
        any_table = TableId(event.table.database, "any", event.table.schema)
        ref = TableRef.of(any_table, self._config)
        if event.operation is DDLOperation.CREATE_DATABASE:
            self._catalogue.ensure_dataset(ref, event.table)
            return
        why = self._why_not(ref, event.table) or self._drop(ref, event.table)
        place = f"{ref.project}.{ref.dataset}"
        if why:
            log.warning("bigquery.dataset_kept", database=event.table.database, dataset=place, why=why)

    def _why_not(self, ref: TableRef, of: TableId) -> str:
        """Why the dataset is to stay; empty when it is to be dropped, and has no commit log any more.

        Raises:
            FencedError: When a newer run has written its tables.
        """
        if self._config.require_manual_drops:
            return "`requireManualDrops` leaves it to an operator to drop it"
        if self._catalogue.is_foreign(ref, of):
            return f"this replicator did not create it: it has no label {OWNER} of its own"
        found = self._catalogue.tables(ref, of)
        if found is None:
            return ""
        others = [name for name in found if not is_own_table(self._config, name)]
        if others:
            return f"it holds tables: {', '.join(sorted(others)[:3])}"
        if ref.commits_id.rsplit(".", 1)[1] not in found:
            return ""
        return self._drop_log(ref, of)

    def _drop_log(self, ref: TableRef, of: TableId) -> str:
        """Drop the commit log unless another run or replicator has written it; returns why it stays.

        By one request that looks and drops: a paused run that wakes up drops no newer run's.

        Raises:
            FencedError: When a newer run has written it.
        """
        owner = text(self._session.owner)
        sql = (
            "DECLARE outcome STRING;\n"
            f"SET outcome = (SELECT CASE WHEN COUNTIF(owner != {owner}) > 0 THEN '{_OTHERS}'"
            f" WHEN MAX(epoch) > {self._session.context.epoch} THEN '{FENCED}' ELSE '{READY}' END FROM {ref.commits_sql});\n"
            f"IF outcome = '{READY}' THEN\nDROP TABLE {ref.commits_sql};\nEND IF;\n"
            "SELECT outcome"
        )
        [(outcome,)] = self._session.jobs.read(sql, f"dropping {ref.commits_id}", of)
        if outcome == FENCED:
            raise BigQueryOwnership(of, self._session.context, ref.id).superseded()
        if outcome == _OTHERS:
            return "another replicator writes it, too"
        self._forget(ref)
        return ""

    def _drop(self, ref: TableRef, of: TableId) -> str:
        """Drop the replicator's other tables, then the dataset, unless it holds something by then; returns why it stays."""
        for name in self._catalogue.tables(ref, of) or ():
            if is_of_one_table(self._config, name):
                self._catalogue.drop(f"{ref.project}.{ref.dataset}.{name}", of)
        failpoint("bigquery.database.emptied")
        self._forget(ref)
        if not self._catalogue.drop_dataset(ref, of):
            return "it is not empty"
        log.warning(
            "bigquery.dataset_dropped",
            database=of.database,
            dataset=f"{ref.project}.{ref.dataset}",
            why="the source dropped it",
        )
        return ""
