"""Deletes the files of a copy that ended before it committed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_target_delta.ddl.table_folder import delete_empty_folder
from replicator_target_delta.files.data_file import is_of_snapshot
from replicator_target_delta.log.transaction_log import TableLog
from replicator_target_delta.maintenance.vacuum import live_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def discard_snapshot(log: TableLog, spark: SparkSession, snapshot_id: str) -> None:
    """Delete the snapshot's files that the log does not name, and the folder when no table and no file is in it.

    Their names say that they are the snapshot's (`is_of_snapshot`), so files that another copy or another writer is about to
    commit stay. Where the log is not of a form that we read, all stay.
    """
    # Listed before the log is read: what is committed meanwhile is named by the log then.
    files = [file for file in log.storage.data_files() if is_of_snapshot(file.name, snapshot_id)]
    log.forget()
    state = log.begin().state
    named = log.removed_names(0) if state.version >= 0 else frozenset[str]()
    if named is None:
        return
    kept = named | live_names(state)
    for file in files:
        if file.name not in kept:
            log.storage.delete(file)
    if state.version < 0:
        delete_empty_folder(spark, log.path)
