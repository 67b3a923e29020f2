"""Deletes old snapshots of a table, and the files that only they need."""

from __future__ import annotations

import time
from typing import Any, Final

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_target_iceberg.config import MAIN, IcebergConfig
from replicator_target_iceberg.jvm import Catalog, java_errors
from replicator_target_iceberg.log.branch import own_snapshots
from replicator_target_iceberg.log.version import Version
from replicator_target_iceberg.table import Attempt, TargetTable

_MILLISECONDS: Final = 3_600_000  # of an hour


def expire(table: TargetTable, attempt: Attempt, config: IcebergConfig, catalog: Catalog) -> MaintenanceReport:
    """Delete old snapshots but for the newest that says how far the table is, and the files that no other needs.

    Of a table with a branch of its own for commits those that only `main` and other branches build on are left to others.
    """
    version = attempt.there
    if config.branch == MAIN:
        snapshots = list(version.metadata.snapshots())
    elif version.head.is_there:
        snapshots = own_snapshots(version.metadata, version.head)
    else:
        return MaintenanceReport()
    times = sorted(snapshot.timestampMillis() for snapshot in snapshots)
    until = int(time.time() * 1000) - config.snapshot_retention_hours * _MILLISECONDS
    if len(times) > config.snapshots_kept:
        until = max(until, times[-config.snapshots_kept])
    if times and times[0] < until:
        with table.turn(table.storage(attempt)), java_errors(f"expire snapshots of {table.name}"):
            made: Any = catalog.jvm[".BaseTable"](version.operations, str(table.name))
            expiry = made.expireSnapshots()
            if config.branch == MAIN:
                expiry.expireOlderThan(until).retainLast(1)
            else:
                _name_each(expiry, version, [one for one in snapshots if one.timestampMillis() < until])
            expiry.commit()
    left = sum(moment >= until for moment in times)
    return MaintenanceReport(True, len(times), max(left, 1) if times else 0)


def _name_each(expiry: Any, version: Version, snapshots: list[Any]) -> None:
    """Have these snapshots expired, and no others by their age; those that branches and tags name stay."""
    named = {ref.snapshotId() for ref in dict(version.metadata.refs()).values()}
    expiry.expireOlderThan(0)
    for snapshot in snapshots:
        if snapshot.snapshotId() not in named:
            expiry.expireSnapshotId(snapshot.snapshotId())
