"""Deletes what runs have left that ended before their commit, and nothing that anyone may still need."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_sdk.discovery.maintenance import MaintenanceReport
from replicator_sdk.errors import RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId
from replicator_target_iceberg.config import CatalogType, IcebergConfig
from replicator_target_iceberg.files.left_files import Folders, OldFile, look
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.jvm import Catalog, java_errors
from replicator_target_iceberg.log.version import PROGRESS, Version, unpacked
from replicator_target_iceberg.maintenance.following import say_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.table import Attempt, TargetTable

log = structlog.get_logger(__name__)

register("iceberg.orphans.found", "iceberg.orphans.deleted")
_GC: Final = "gc.enabled"


def remove_orphans(
    table: TargetTable, attempt: Attempt, config: IcebergConfig, catalog: Catalog, spark: SparkSession
) -> MaintenanceReport:
    """Delete files of a table that no snapshot of any branch or tag needs, once they are older than `orphanRetentionHours`.

    Only files with names that this target gives, or that Iceberg's library gives before a commit. Which of them are in use is found by the library.

    Raises:
        FencedError: When a newer run has written the table.
    """
    version = attempt.there
    if not version.metadata.propertyAsBoolean(_GC, True):
        return MaintenanceReport()
    storage, place = table.storage(attempt), _metadata_folder(version)
    folders = _looked(storage, place, config)
    if (other := _of_another_table(table, version, folders)) is not None:
        log.warning(
            "iceberg.orphans_kept",
            table=str(table.table),
            file=other,
            why="another table has metadata in the same folder; which files are its own is not known here",
        )
        return MaintenanceReport()
    files = [*folders.old, *_left_versions(config, version, folders)]
    storage.delete(file.location for file in folders.checksums)
    if not files:
        return MaintenanceReport(True, len(folders.checksums), 0)
    # What was committed meanwhile is in use; and no older run, which may be held up for days, commits what it has written before.
    attempt = table.begin()
    assert attempt.progress is not None
    if attempt.progress.epoch < table.ownership.epoch:
        attempt = say_again(table, attempt, attempt.progress)
    failpoint("iceberg.orphans.found")
    gone = _deleted(table, attempt, catalog, spark, files)
    failpoint("iceberg.orphans.deleted")
    left = len(gone) - len(storage.missing(gone))
    return MaintenanceReport(True, len(gone) + len(folders.checksums), left)


def _looked(storage: Storage, place: str, config: IcebergConfig) -> Folders:
    try:
        return look(storage, place, time.time() - config.orphan_retention_hours * 3600)
    except OSError as error:
        raise RetryableError(
            f"the files of the table cannot be listed ({type(error).__name__})",
            code="RPL-4429",
            hint="retried by itself; see that the tables' location can be reached, and grant the right to list it",
        ) from error


def _metadata_folder(version: Version) -> str:
    return str(version.operations.metadataFileLocation("x")).rpartition("/")[0]


def _left_versions(config: IcebergConfig, version: Version, folders: Folders) -> list[OldFile]:
    """Versions that are not the table's any more: of commits that were not published, or since a run was killed before it deleted them."""
    known = _known(version)
    found = {name: file for name, file in folders.versions.items() if file is not None and name not in known}
    if config.catalog_type is CatalogType.HADOOP:
        now = max((_number(name) for name in known), default=0)
        return [file for name, file in found.items() if name.startswith("v") and _number(name) < now]
    return [file for name, file in found.items() if not name.startswith("v")]


def _number(name: str) -> int:
    digits = name.partition(".")[0].removeprefix("v")
    return int(digits) if digits.isdecimal() else 0


def _known(version: Version) -> set[str]:
    """The names of the versions that the table's newest one knows."""
    files = [version.metadata.metadataFileLocation(), *(one.file() for one in version.metadata.previousFiles())]
    return {str(file).rpartition("/")[2] for file in files}


def _of_another_table(table: TargetTable, version: Version, folders: Folders) -> str | None:
    """A version in the folder that is not one of the table's, by its name; one that a run of this replicator has made for it is the table's."""
    known, storage = _known(version), Storage(folders.place)
    for name, file in folders.versions.items():
        if name in known or name.startswith("v"):  # a catalog of folders has one table in each
            continue
        try:
            record = _record(storage, f"{folders.place}/{name}")
        except (ValueError, EOFError, KeyError):  # not written to its end: no catalog names it
            if file is None:
                return name
            continue
        if record is None or (record["replicator"], TableId.from_json(record["table"])) != (
            table.ownership.owner,
            table.table,
        ):
            return name
    return None


def _record(storage: Storage, location: str) -> dict[str, Any] | None:
    """What the last commit of a version says of itself."""
    with storage.open_input(location) as file:
        content = file.read()
    text = gzip.decompress(content) if location.endswith(".gz.metadata.json") else content
    snapshots = json.loads(text).get("snapshots") or []
    if not snapshots:
        return None
    newest = max(snapshots, key=lambda one: int(one.get("sequence-number", 0)))
    found = newest.get("summary", {}).get(PROGRESS)
    return None if found is None else unpacked(found)


def _deleted(
    table: TargetTable, attempt: Attempt, catalog: Catalog, spark: SparkSession, files: Iterable[OldFile]
) -> list[str]:
    """Have Iceberg's own action delete those of the files that no snapshot and no version needs."""
    jvm, version = catalog.jvm, attempt.there
    rows = spark.createDataFrame([(file.location, file.changed) for file in files], "file_path string, changed long")
    listed = rows.selectExpr("file_path", "timestamp_millis(changed) AS last_modified")
    with java_errors(f"delete orphan files of {table.name}"):
        own = jvm[".BaseTable"](version.operations, str(table.name))
        session: Any = spark._jsparkSession  # noqa: SLF001 - the action has no Python interface
        action = jvm[".spark.actions.SparkActions"].get(session).deleteOrphanFiles(own)
        ignore = jvm[".actions.DeleteOrphanFiles.PrefixMismatchMode"].IGNORE
        now = int(time.time() * 1000)  # they are old already; where they are was chosen, too
        action = action.compareToFileList(listed._jdf).location("").olderThan(now)  # noqa: SLF001 - as above
        result = action.prefixMismatchMode(ignore).execute()
        return [str(place) for place in result.orphanFileLocations()]
