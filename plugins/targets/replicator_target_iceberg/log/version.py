"""One version of a table as its metadata has it, read by the library's Java objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_target_iceberg.arrangement.partitioning import Partitioning
from replicator_target_iceberg.jvm import Jvm
from replicator_target_iceberg.schema.types import Layout

PROGRESS: Final = "replicator.progress"
"""The property of a snapshot's summary that holds the table's record."""
COMMIT: Final = "replicator.commit"
"""The property by which a commit is known from every other."""
TAG: Final = "replicator"
"""Names the newest snapshot with a record, so that no program's expiry of snapshots deletes it."""
_CHUNKS: Final = "snapshotChunks"
_LOADED: Final = "loadedChunks"


@dataclass(frozen=True, slots=True)
class Version:
    """What a table was when it was looked at.

    Attributes:
        operations: Java's `TableOperations`, by which it is committed to.
        metadata: Java's `TableMetadata`; None when there is no table.
        snapshot: The current snapshot's number; -1 when there is none.
        stored: The record that the newest snapshot with one holds; None when there is none.
        later: How many snapshots of other programs came after that one; None when some of them were expired, so that the current
            one need not be a successor of it: the record then says whose the table is, and not how far.
        schema: The columns in Iceberg's JSON form.
        location: Where the table's files are.
        format_version: Of the table.
        partitioning: The specification by which files are written.
    """

    operations: Any
    metadata: Any
    snapshot: int
    stored: dict[str, Any] | None
    later: int | None
    schema: dict[str, Any]
    location: str
    format_version: int
    partitioning: Partitioning

    @property
    def layout(self) -> Layout:
        """The columns."""
        return Layout.of(self.schema)


def read_version(jvm: Jvm, operations: Any, table: TableId) -> Version:
    """The newest version.

    Raises:
        NeedsUserError: RPL-3427 when the table is one that this target does not write.
    """
    metadata = operations.refresh()
    snapshot = metadata.currentSnapshot()
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
        -1 if snapshot is None else snapshot.snapshotId(),
        *_stored(metadata, snapshot),
        schema,
        metadata.location(),
        metadata.formatVersion(),
        partitioning,
    )


def _stored(metadata: Any, snapshot: Any) -> tuple[dict[str, Any] | None, int | None]:
    """The record of the newest snapshot that has one, looked for back from the current one, and how far back it is."""
    later = 0
    while snapshot is not None:
        if (found := snapshot.summary().get(PROGRESS)) is not None:
            return unpacked(found), later
        parent, later = snapshot.parentId(), later + 1
        snapshot = None if parent is None else metadata.snapshot(parent)
        if parent is not None and snapshot is None and (tag := dict(metadata.refs()).get(TAG)) is not None:
            tagged = metadata.snapshot(tag.snapshotId())
            found = None if tagged is None else tagged.summary().get(PROGRESS)
            return (None if found is None else unpacked(found)), None
    return None, 0


def record_of(snapshot: Any, read_offset: Callable[[Mapping[str, bytes]], Offset]) -> TableRecord | None:
    """What a snapshot of Java's says of the table; None for one that says nothing."""
    found = snapshot.summary().get(PROGRESS)
    return None if found is None else TableRecord.from_json(unpacked(found), read_offset)


def progress_expired(table: TableId) -> NeedsUserError:
    """Returns the error for a table of which `Version.later` is None."""
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
    progress = {**record["progress"], _CHUNKS: _as_ranges(record["progress"][_CHUNKS])}
    return json.dumps({**record, "progress": progress, _LOADED: _as_ranges(record[_LOADED])})


def unpacked(text: str) -> dict[str, Any]:
    """The record that `packed` has written."""
    record: dict[str, Any] = json.loads(text)
    progress = {**record["progress"], _CHUNKS: _as_numbers(record["progress"][_CHUNKS])}
    return {**record, "progress": progress, _LOADED: _as_numbers(record[_LOADED])}


def _as_ranges(numbers: Iterable[int] | None) -> list[list[int]] | None:
    if numbers is None:
        return None
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _as_numbers(ranges: Iterable[list[int]] | None) -> list[int] | None:
    return None if ranges is None else [number for first, last in ranges for number in range(first, last + 1)]


def has_commit(version: Version, commit: str, base: int) -> bool:
    """Whether the current snapshot, or one between it and `base`, is the commit of that name."""
    snapshot = version.metadata.currentSnapshot()
    while snapshot is not None and snapshot.snapshotId() != base:
        if snapshot.summary().get(COMMIT) == commit:
            return True
        parent = snapshot.parentId()
        snapshot = None if parent is None else version.metadata.snapshot(parent)
    return False
