"""One version of a table as its metadata has it, read by the library's Java objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_iceberg.arrangement.partitioning import Partitioning
from replicator_target_iceberg.config import KEY_PROPERTIES, OWN_TOMBSTONE, Mode
from replicator_target_iceberg.jvm import Jvm
from replicator_target_iceberg.log.branch import Head, branch_gone, find_head, left_commit, tag_of
from replicator_target_iceberg.log.ranges import as_numbers, as_ranges
from replicator_target_iceberg.schema.definition import Columns
from replicator_target_iceberg.schema.table_form import SEQUENCE, VERSION_NAMES, TableForm
from replicator_target_iceberg.schema.types import Layout

PROGRESS: Final = "replicator.progress"
"""The property of a snapshot's summary that holds the table's record."""
COMMIT: Final = "replicator.commit"
"""The property by which a commit is known from every other."""
KEYS: Final = "replicator.keys"
"""The property that holds, of a table with several rows of a key, the table properties that name its keys."""
COMMIT_ID: Final = "replicator.commit-id"
"""The property that commits of several tables share which were made together."""
_TOTALS: Final = ("data-files", "files-size", "records", "position-deletes", "equality-deletes")
_CHUNKS: Final = "snapshotChunks"
_LOADED: Final = "loadedChunks"


@dataclass(frozen=True, slots=True)
class Version:
    """What a table was when it was looked at.

    Attributes:
        operations: Java's `TableOperations`, by which it is committed to.
        metadata: Java's `TableMetadata`; None when there is no table.
        head: The newest snapshot of the branch that commits go to.
        stored: The record that the newest snapshot with one holds; None when there is none.
        later: How many snapshots of other programs came after that one; None when some of them were expired, so that the newest
            one need not be a successor of it, or when it is not in the branch: the record then says whose the table is, and not how far.
        left: The snapshot of that record where it is not in the branch.
        schema: The columns in Iceberg's JSON form.
        location: Where the table's files are.
        format_version: Of the table.
        partitioning: The specification by which files are written.
    """

    operations: Any
    metadata: Any
    head: Head
    stored: dict[str, Any] | None
    later: int | None
    left: Any | None
    schema: dict[str, Any]
    location: str
    format_version: int
    partitioning: Partitioning

    @property
    def snapshot(self) -> int:
        """The number of the branch's newest snapshot; -1 when there is none."""
        return self.head.number

    @property
    def layout(self) -> Layout:
        """The columns."""
        return Layout.of(self.schema)

    def key_properties(self) -> dict[str, str]:
        """The table properties that name the keys of a merge-on-read table to its readers."""
        asked = self.metadata.properties()
        return {name: text for name in KEY_PROPERTIES if (text := asked.get(name)) is not None}

    def fits(self, schema: TableSchema, form: TableForm) -> bool:
        """Whether the table has exactly the columns of a source's table in a form, and its readers these keys."""
        if not Columns(self.schema, form).matches(schema):
            return False
        # The properties of a table of versions decide nothing, and are said again.
        return form.keys is None or self.key_properties() == form.properties

    @property
    def mode(self) -> Mode | None:
        """That of a table which has several rows of a key; None for others. Versions are known by their columns, so that no one who drops a
        property has a copy take them away.
        """
        names = {column["name"] for column in self.schema["fields"]}
        if {*VERSION_NAMES.values()} <= names:
            return Mode.SCD2
        # Java is asked only of a table that may be one, since each commit asks for the mode.
        if SEQUENCE not in names or self.metadata.properties().get(OWN_TOMBSTONE) is None:
            return None
        return Mode.MERGE_ON_READ

    @property
    def has_versions(self) -> bool:
        """Whether it is a table of versions."""
        return self.mode is Mode.SCD2

    @property
    def has_rows(self) -> bool:
        """Whether the branch has data files."""
        return storage_of(self.head.snapshot).files != 0

    def progress_unknown(self, table: TableId) -> NeedsUserError:
        """Returns the error of a version whose `later` is None."""
        return _expired(table) if self.left is None else branch_gone(table, self.head.branch, self.left)


def read_version(jvm: Jvm, operations: Any, table: TableId, branch: str) -> Version:
    """The newest version, as a branch has it.

    Raises:
        NeedsUserError: RPL-3427 when the table is one that this target does not write; RPL-3443 when the branch is a tag.
    """
    metadata = operations.refresh()
    head = find_head(metadata, branch, table)
    schema = json.loads(jvm[".SchemaParser"].toJson(metadata.schema()))
    partitioning = Partitioning.of(json.loads(jvm[".PartitionSpecParser"].toJson(metadata.spec())))
    if found := partitioning.unwritable(schema["fields"]):
        raise NeedsUserError(
            f"the Iceberg table is partitioned by {found}, by which this target does not partition rows",
            code="RPL-3427",
            table=str(table),
            hint="have another program take that field out of the table's partition specification",
        )
    return Version(
        operations,
        metadata,
        head,
        *_stored(metadata, head),
        schema,
        metadata.location(),
        metadata.formatVersion(),
        partitioning,
    )


def _stored(metadata: Any, head: Head) -> tuple[dict[str, Any] | None, int | None, Any | None]:
    """The record of the branch's newest snapshot that has one, how many are later, and where it is when it is not in the branch."""
    if (left := left_commit(metadata, head)) is not None:
        return _record(left), None, left
    later = -1
    for later, snapshot in enumerate(head.ancestors(metadata)):
        if (found := _record(snapshot)) is not None:
            return found, later, None
    if later >= 0 and snapshot.parentId() is not None and (tag := metadata.ref(tag_of(head.branch))) is not None:
        return _record(metadata.snapshot(tag.snapshotId())), None, None
    return None, 0, None


def _record(snapshot: Any | None) -> dict[str, Any] | None:
    found = None if snapshot is None else snapshot.summary().get(PROGRESS)
    return None if found is None else unpacked(found)


def record_of(snapshot: Any, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> TableRecord | None:
    """What a snapshot of Java's says of the table; None for one that says nothing."""
    found = _record(snapshot)
    return None if found is None else TableRecord.from_json(found, read_offset)


def keys_of(metadata: Any, snapshot: Any) -> dict[str, str]:
    """The table properties that named the keys at a snapshot of this target, or of another program after one; else none."""
    for found in Head("", True, snapshot).ancestors(metadata):
        if _record(found) is not None:
            keys: dict[str, str] = json.loads(found.summary().get(KEYS) or "{}")
            return keys
    return {}


def storage_of(snapshot: Any | None) -> TableStorage:
    """What Java's snapshot consists of, by the totals of its summary; a table without one is empty.

    How many rows the equality deletes of other programs delete is not known without reading them.
    """
    if snapshot is None:
        return TableStorage(0, 0, 0, 0)
    summary = snapshot.summary()
    files, nbytes, rows, deleted, by_value = (_total(summary.get(f"total-{name}")) for name in _TOTALS)
    return TableStorage(files, nbytes, rows, None if by_value else deleted)


def _total(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _expired(table: TableId) -> NeedsUserError:
    return NeedsUserError(
        "the snapshots between the one that says how far the table is and the current one were expired by another program",
        code="RPL-3426",
        table=str(table),
        hint="copy the table again: `replicator table resync NAME TABLE`; let this target expire snapshots alone",
    )


def packed(record: Mapping[str, Any]) -> str:
    """A record as a snapshot's summary holds it: numbers that follow one another as their first and last.

    Every commit writes the summaries of all snapshots, and the record of each step of a large copy names all chunks so far.
    """
    progress = {**record["progress"], _CHUNKS: _ranges(record["progress"][_CHUNKS])}
    return json.dumps({**record, "progress": progress, _LOADED: _ranges(record[_LOADED])})


def unpacked(text: str) -> dict[str, Any]:
    """The record that `packed` has written."""
    record: dict[str, Any] = json.loads(text)
    progress = {**record["progress"], _CHUNKS: _numbers(record["progress"][_CHUNKS])}
    return {**record, "progress": progress, _LOADED: _numbers(record[_LOADED])}


def _ranges(numbers: Iterable[int] | None) -> list[list[int]] | None:
    return None if numbers is None else as_ranges(numbers)


def _numbers(ranges: Iterable[list[int]] | None) -> list[int] | None:
    return None if ranges is None else as_numbers(ranges)


def has_commit(version: Version, commit: str, base: int) -> bool:
    """Whether the branch's newest snapshot, or one between it and `base`, is the commit of that name."""
    for snapshot in version.head.ancestors(version.metadata):
        if snapshot.snapshotId() == base:
            return False
        if snapshot.summary().get(COMMIT) == commit:
            return True
    return False
