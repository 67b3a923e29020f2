"""Keeps tables fast to read and to commit to: small files put together, old snapshots and what only they need deleted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.discovery.maintenance import MaintenanceReport, MaintenanceTask
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_target_iceberg.config import MAIN, IcebergConfig
from replicator_target_iceberg.ddl.rewrite import live_rows
from replicator_target_iceberg.files.data_file import FULL, FileWriter
from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles
from replicator_target_iceberg.jvm import Catalog, java_errors
from replicator_target_iceberg.log.branch import own_snapshots
from replicator_target_iceberg.log.version import Version
from replicator_target_iceberg.table import Attempt, TargetTable

register("iceberg.others.followed", "iceberg.compaction.written")
COMPACT: Final = "compact"
EXPIRE: Final = "expire"
_MANY_SMALL_FILES: Final = 8
_GONE_SHARE: Final = 0.2
_STEP_BYTES: Final = 64 << 20  # of files in one step, compressed: what waits for it waits a few seconds
_MILLISECONDS: Final = 3_600_000


def tasks(config: IcebergConfig) -> Sequence[MaintenanceTask]:
    """The tasks that the settings ask for; each holds the applies of its table, which it would make fail."""
    intervals = {COMPACT: config.compact_interval_seconds, EXPIRE: config.expire_interval_seconds}
    return tuple(MaintenanceTask(name, seconds) for name, seconds in intervals.items() if seconds > 0)


def maintain(config: IcebergConfig, context: DeltaTargetContext, task: str, table: TableId) -> MaintenanceReport:
    """Do one step of `task` for `table`; fenced like an apply. A table that is not there needs none.

    Raises:
        FencedError: When a newer run has written the table.
    """
    catalog = Catalog(context.spark(), config)
    try:
        target = TargetTable(table, config, context, catalog)
        attempt = target.begin()
        if attempt.progress is None:
            return MaintenanceReport()
        if attempt.there.later:
            attempt = _followed(target, attempt, attempt.progress)
        if task == COMPACT:
            return _compact(target, attempt, config)
        return _expire(target, attempt, config, catalog)
    finally:
        catalog.close()


def _followed(table: TargetTable, attempt: Attempt, progress: TableProgress) -> Attempt:
    """The version after a commit that only says how far the table is, after others' commits that do not.

    Without it, what is expired between two of theirs would leave a table that says nothing of itself: one that the source seldom
    changes, and another program compacts each night.
    """
    change = table.change(attempt)
    table.commit(attempt, change, table.ownership.taken_over(progress), change.append)
    failpoint("iceberg.others.followed")
    return table.begin()


@dataclass(frozen=True, slots=True)
class _Plan:
    """Files to write again, and whether others are left for later."""

    files: list[LiveFile]
    is_all: bool


def _planned(files: LiveFiles, file_bytes: int) -> _Plan:
    """Files that lost many rows, and small ones of a partition once there are several, partition by partition."""
    every = list(files)
    holed = [f for f in every if f.rows and f.gone > _GONE_SHARE * f.rows]
    known = {f.location for f in holed}
    small = [f for f in every if f.size * 4 < file_bytes and f.location not in known and not _is_full(f)]
    together = Counter(f.partition for f in small)  # files of several partitions are not put together
    many = [f for f in small if together[f.partition] >= _MANY_SMALL_FILES]
    wanted = [*holed, *sorted(many, key=lambda f: str(f.partition))]
    chosen: list[LiveFile] = []
    size = 0
    for file in wanted:
        if chosen and size + file.size > max(_STEP_BYTES, file_bytes):
            break
        chosen.append(file)
        size += file.size
    return _Plan(chosen, len(chosen) == len(wanted))


def _is_full(file: LiveFile) -> bool:
    """Whether it was written with as many rows as files are to have: written again it would be the same."""
    return file.location.rpartition("/")[2].startswith(FULL)


def _compact(table: TargetTable, attempt: Attempt, config: IcebergConfig) -> MaintenanceReport:
    """Write the live rows of some files into others, in one commit that changes no rows."""
    files = table.files(attempt, None)
    plan = _planned(files, config.target_file_bytes)
    before = sum(file.size for file in files)
    if not plan.files:
        return MaintenanceReport(True, len(files), len(files), before, before)
    change = table.change(attempt)
    storage = change.storage
    with FileWriter(storage, config.target_file_bytes, change.form) as writer:
        for file in plan.files:
            for rows in live_rows(storage, file, list(change.layout.arrow)):
                writer.add(rows.cast(change.layout.arrow))
        made = writer.finish()
    failpoint("iceberg.compaction.written")
    assert attempt.progress is not None
    deletes = [ref for file in plan.files for ref in file.deletes if ref.data_file]
    table.commit(
        attempt,
        change,
        table.ownership.taken_over(attempt.progress),
        lambda: change.rewrite(made, plan.files, deletes),
        written=[file.location for file in made],
    )
    size = before - sum(file.size for file in plan.files) + sum(file.size for file in made)
    return MaintenanceReport(plan.is_all, len(files), len(files) - len(plan.files) + len(made), before, size)


def _expire(table: TargetTable, attempt: Attempt, config: IcebergConfig, catalog: Catalog) -> MaintenanceReport:
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
