"""One target table: every write goes through here, is checked against newer runs and stores the table's record."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.row_versions import VERSION_END_KEY
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_sdk.timeline import step
from replicator_target_iceberg.arrangement.definition import described, new_partitioning, new_sorting
from replicator_target_iceberg.config import OWN_TOMBSTONE, CatalogType, IcebergConfig
from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles, parse_task
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.jvm import Catalog, java_errors
from replicator_target_iceberg.log.change import STATE_UNKNOWN, Change, specifications
from replicator_target_iceberg.log.version import (
    COMMIT_ID,
    KEYS,
    PROGRESS,
    Version,
    has_commit,
    packed,
    read_version,
    storage_of,
)
from replicator_target_iceberg.naming import identifier
from replicator_target_iceberg.ownership import IcebergOwnership
from replicator_target_iceberg.schema.types import arrow_field

log = structlog.get_logger(__name__)

register("iceberg.commit.before", "iceberg.commit.after")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A version that this run may write after.

    Attributes:
        version: The version; None when there is no table.
        record: What its newest commit of a replicator says; None when the table is new.
    """

    version: Version | None
    record: TableRecord | None

    @property
    def progress(self) -> TableProgress | None:
        """How far the table is; None when it is new."""
        return None if self.record is None else self.record.progress

    @property
    def there(self) -> Version:
        """The version of a table that is there."""
        assert self.version is not None
        return self.version

    def has_reached(self, position: Position) -> bool:
        """Whether `position` is applied already."""
        return self.record is not None and self.record.has_reached(position)


@dataclass(frozen=True, slots=True)
class NewTable:
    """What a table is created with.

    Attributes:
        columns: In Iceberg's JSON form.
        properties: Those that name its keys to readers, beside the properties of the settings.
    """

    columns: dict[str, Any]
    properties: dict[str, str]


@dataclass(slots=True)
class _Known:
    """The files of a snapshot, as far as this process has read or written them."""

    snapshot: int
    chosen_by: int | None
    files: LiveFiles


class TargetTable:
    """A table of the target. Calls take turns, also from several threads."""

    def __init__(self, table: TableId, config: IcebergConfig, context: DeltaTargetContext, catalog: Catalog) -> None:
        self.table = table
        self.name = identifier(table)
        self.lock = threading.RLock()
        self.ownership = IcebergOwnership(table, context, f"{config.catalog}.{self.name}")
        self._config, self._catalog = config, catalog
        self.read_offset = context.read_offset
        self._metrics = context.metrics
        self._shown: int | None = None
        self._operations: Any = None
        self._last: TableProgress | None = None
        self._known: _Known | None = None
        self._is_compared = False

    def progress(self) -> TableProgress | None:
        """What the table's newest commit says, read from the catalog. Writes nothing.

        Raises:
            FencedError: When a newer run has written it.
            NeedsUserError: When the table is not this replicator's.
        """
        with self.lock:
            self.forget()
            return self.begin().progress

    def forget(self) -> None:
        """Read all of it again at the next use."""
        self._operations = self._last = self._known = None

    def begin(self, *, replacing: bool = False) -> Attempt:
        """The newest version, to be written after; a commit after it fails when anyone has committed since.

        Args:
            replacing: Whether all rows are replaced, or the table is deleted: then it need not say how far it is.

        Raises:
            FencedError: When a newer run has written the table.
            NeedsUserError: When the table is not this replicator's; RPL-3426 when how far it is was expired; RPL-3442 when its
                branch does not have what was committed last.
            RetryableError: RPL-4426 when another run wrote the table since this run read it last, RPL-4113 when it is gone.
        """
        attempt = self._begin()
        if attempt.version is not None and attempt.version.later is None:
            if replacing and attempt.record is not None:
                self._last = None
                return Attempt(attempt.version, replace(attempt.record, progress=None, chunks=frozenset()))
            raise attempt.version.progress_unknown(self.table)
        found, last = attempt.progress, self._last
        if last is not None and found != last and found != self.ownership.taken_over(last):
            self.forget()
            if attempt.record is None:
                self.ownership.check_follows(None, last.position)  # deleted by another program
            raise RetryableError(
                "the table was written by another run of this replicator since it was read",
                code="RPL-4426",
                table=str(self.table),
                hint="after a rollback of the table nothing, it is tried again by itself; otherwise stop one of the two runs",
            )
        self._last = found
        return attempt

    def _begin(self) -> Attempt:
        if self._operations is None:
            self._operations = self._catalog.operations(self.name)
            if self._operations is None:
                return Attempt(None, None)
        with java_errors(f"read the table {self.name}"):
            version = read_version(self._catalog.jvm, self._operations, self.table, self._config.branch)
        record = None if version.stored is None else TableRecord.from_json(version.stored, self.read_offset)
        self.ownership.check(record)
        self._show(version.head.snapshot)
        return Attempt(version, record)

    def _show(self, snapshot: Any | None) -> None:
        """Report to the run's metrics what a snapshot consists of, once."""
        number = -1 if snapshot is None else int(snapshot.snapshotId())
        if number != self._shown:
            with java_errors(f"read the summary of a snapshot of {self.name}"):
                storage = storage_of(snapshot)
            self._metrics.stored(self.table, storage)
            self._shown = number

    def change(self, attempt: Attempt, wanted: NewTable | None = None) -> Change:
        """A commit in the making after that version; of a new table when there is none, as it is `wanted`.

        Raises:
            NeedsUserError: RPL-3430 when a new table cannot have the partitions or the sort order of the settings.
        """
        jvm = self._catalog.jvm
        if attempt.version is None:
            assert wanted is not None
            return Change(jvm, self._created(wanted), None, self._config.branch)
        with java_errors(f"begin a commit to {self.name}"):
            transaction = jvm[".Transactions"].newTransaction(str(self.name), attempt.version.operations)
        if transaction.startMetadata() != attempt.version.metadata:
            raise RetryableError(
                "another program has committed to the table since it was read",
                code="RPL-4422",
                table=str(self.table),
                hint="retried by itself; when it goes on, end the other program, or have it write at other times",
            )
        return Change(jvm, transaction, attempt.version, self._config.branch)

    def _created(self, wanted: NewTable) -> Any:
        columns, name = wanted.columns, str(self.table)
        properties = {**self._config.properties_of(self.table), **wanted.properties}
        spec = new_partitioning(columns, self._config.partitioning_of(self.table) or (), name)
        order = new_sorting(columns, self._config.sorting_of(self.table), name)
        return self._catalog.create(self.name, json.dumps(columns), properties, json.dumps(spec), json.dumps(order))

    def note_partitions(self, attempt: Attempt) -> None:
        """Log once where the table is partitioned otherwise than the settings say: they are for new tables."""
        version = attempt.version
        if self._is_compared or version is None:
            return
        self._is_compared = True
        if (wanted := self._config.partitioning_of(self.table)) is None:
            return
        found = described(version.partitioning, version.schema["fields"])
        if found != wanted:
            log.warning(
                "iceberg.partitioned_otherwise",
                table=str(self.table),
                has=[f"{term.transform} {term.column}" for term in found],
                why="`partitioning` is for new tables; this one keeps its own",
            )

    def commit(
        self,
        attempt: Attempt,
        change: Change,
        progress: TableProgress,
        content: Callable[[], None],
        *,
        dropped: bool | None = None,
        written: Iterable[str] = (),
        commit_id: str = "",
        keys: dict[str, str] | None = None,
    ) -> None:
        """Publish `change` with `progress`; durable on return.

        A lost answer is looked up: the commit has happened when the table has a snapshot of its name.

        Args:
            attempt: What the change began with.
            change: The commit.
            progress: How far the table is then.
            content: Gives the change its files; called once.
            dropped: Whether the source has dropped the table; as it was when None.
            written: The files that were written for it, deleted when it has certainly not happened.
            commit_id: What it has in common with commits of other tables; a name of its own when empty.
            keys: The properties that name the table's keys then; those of the change when None.
        """
        record = self.ownership.record(progress, attempt.record, dropped=dropped)
        storage = change.storage
        stamps = {PROGRESS: packed(record.to_json()), **_summary(progress), COMMIT_ID: commit_id or change.name}
        keys = self._keys(attempt, change) if keys is None else keys
        if OWN_TOMBSTONE in keys or VERSION_END_KEY in keys:
            stamps[KEYS] = json.dumps(keys)  # for a rewind to it
        change.stamp(stamps)
        try:
            content()
        except Exception:
            storage.delete(written)  # the catalog has not been asked yet
            raise
        failpoint("iceberg.commit.before")
        try:
            with step("table.commit"), self.turn(storage):
                change.publish()
        except RetryableError as error:
            self.forget()
            if not self._has_happened(attempt, change):
                if error.code != STATE_UNKNOWN:
                    storage.delete(written)
                raise
        change.sync(storage)
        self._last = progress
        self._show(change.made())
        failpoint("iceberg.commit.after")

    def _keys(self, attempt: Attempt, change: Change) -> dict[str, str]:
        """The properties that name the keys of a table with several rows of a key; those of other tables are not read."""
        there = attempt.version
        is_read = self._config.mode.is_read_by_keys or (there is not None and there.mode is not None)
        return change.key_properties if is_read else {}

    def _has_happened(self, attempt: Attempt, change: Change) -> bool:
        """Whether the table has the commit, whatever the catalog has said: a request that was sent twice is refused the second time.

        Raises:
            FencedError: When a newer run was quicker, or came after it.
        """
        base = -1 if attempt.version is None else attempt.version.snapshot
        found = self._begin().version
        return found is not None and has_commit(found, change.name, base)

    def turn(self, storage: Storage) -> contextlib.AbstractContextManager[None]:
        """What a commit is published in, so that no other process of the replicator does so at the same time where the catalog does not see to it."""
        return storage.committing() if self._config.catalog_type is CatalogType.HADOOP else contextlib.nullcontext()

    def files(self, attempt: Attempt, chosen_by: int | None) -> LiveFiles:
        """The data files of a version; read from the catalog once, then followed.

        Args:
            attempt: The version.
            chosen_by: The identity of the column whose range is wanted.
        """
        version = attempt.there
        known = self._known
        if (
            known is None
            or (known.snapshot, known.chosen_by) != (version.snapshot, chosen_by)
            or version.partitioning.number not in known.files.specs
        ):
            specs = specifications(self._catalog.jvm, version.metadata.specs())
            with java_errors(f"list the files of {self.name}"):
                files = LiveFiles(self._planned(version, chosen_by), specs)
            self._known = known = _Known(version.snapshot, chosen_by, files)
        return known.files

    def follow(self, change: Change, chosen_by: int | None, files: LiveFiles) -> None:
        """Take over what a commit of this process made of the files."""
        self._known = _Known(change.snapshot(), chosen_by, files)

    def locations(self, attempt: Attempt, snapshot: int | None) -> frozenset[str]:
        """Where all files are that a snapshot's rows are read from, those of deleted rows included.

        Args:
            attempt: The version.
            snapshot: The snapshot's number; None for the current one.
        """
        with java_errors(f"list the files of {self.name}"):
            files = list(self._planned(attempt.there, None, snapshot))
        return frozenset(place for file in files for place in (file.location, *(ref.location for ref in file.deletes)))

    def files_of(self, attempt: Attempt, chosen_by: int | None, snapshot: int) -> list[LiveFile]:
        """The data files of any snapshot of the table, read from the catalog."""
        with java_errors(f"list the files of {self.name}"):
            return list(self._planned(attempt.there, chosen_by, snapshot))

    def _planned(self, version: Version, chosen_by: int | None, snapshot: int | None = None) -> Iterable[LiveFile]:
        jvm = self._catalog.jvm
        scan = jvm[".BaseTable"](version.operations, str(self.name)).newScan()
        if snapshot is not None:
            scan = scan.useSnapshot(snapshot)
        elif version.head.is_there:  # else the next commit begins from what the table's `main` has
            scan = scan.useRef(version.head.branch)
        column = next((c for c in version.schema["fields"] if c["id"] == chosen_by), None)
        if column is not None:
            scan = scan.includeColumnStats([column["name"]])
        kind = None if column is None else arrow_field(column).type
        tasks = scan.planFiles()
        try:
            listed = tasks.iterator()
            while listed.hasNext():
                yield parse_task(jvm[".ScanTaskParser"].toJson(listed.next()), chosen_by, kind)
        finally:
            tasks.close()

    def storage(self, attempt: Attempt) -> Storage:
        """The files of the table."""
        return Storage(attempt.there.location)

    def drop(self) -> None:
        """Delete the table with its files."""
        self._catalog.drop(self.name)
        self.forget()


def _summary(progress: TableProgress) -> dict[str, str]:
    """What people read in a snapshot's summary; the record says the same."""
    summary = {
        "replicator.epoch": str(progress.epoch),
        "replicator.position": str(progress.position),
        "replicator.sequence": str(progress.last_sequence),
        "replicator.batch": progress.batch,
    }
    if progress.valid_through >= 0:
        summary["replicator.valid-through"] = str(progress.valid_through)
    return summary
