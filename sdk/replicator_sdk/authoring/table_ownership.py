"""Decides whether a run may write a target table, and what the table's next commit says of itself.

A target stores a `TableRecord` in each commit, together with the rows. Before it writes it reads the record and gives it to
`TableOwnership.check`. Its commit must fail when the record has changed since it was read: only the storage can see to that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from replicator_sdk.context import DeltaContext, DeltaTargetContext
from replicator_sdk.errors import FencedError, ReplicatorError, RetryableError
from replicator_sdk.offset import Offset, Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress

SUPERSEDED_HINT = (
    "nothing to do while the newer run goes on; when there is none, the pipeline's state was deleted or is an old copy:"
    " put the newer state back; without it `replicator reset PIPELINE --lost-state` has every table copied again"
)
"""The next step for people, in the error that `TableOwnership.superseded` returns."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """What a commit of a target table says of it. Immutable.

    Attributes:
        owner: The replicator that wrote it, as `owner_of` returns it.
        table: The table at the source.
        epoch: The highest epoch of a run that wrote the table or took it over.
        progress: How far the table is; None when a run took it over before any rows or columns were written.
        chunks: Indexes of the snapshot chunks in the table, also when the snapshot is finished.
        dropped: Whether the source has dropped the table and the target keeps it.
    """

    owner: str
    table: TableId
    epoch: int
    progress: TableProgress | None
    chunks: frozenset[int] = frozenset()
    dropped: bool = False

    def has_reached(self, position: Position) -> bool:
        """Whether everything up to `position` is applied."""
        return self.progress is not None and position <= self.progress.position

    def is_until(self, position: Position) -> bool:
        """Whether nothing after `position` is applied."""
        return self.progress is None or self.progress.position <= position

    def is_of(self, snapshot_id: str) -> bool:
        """Whether the rows come from the snapshot plan `snapshot_id`, finished or not."""
        return self.progress is not None and self.progress.snapshot_id == snapshot_id

    def chunks_of(self, snapshot_id: str) -> frozenset[int]:
        """Indexes of the chunks of the plan `snapshot_id` in the table; empty for another plan."""
        return self.chunks if self.is_of(snapshot_id) else frozenset()

    def to_json(self) -> dict[str, Any]:
        """The JSON form of a record with a progress, for targets that store one."""
        assert self.progress is not None
        return {
            "replicator": self.owner,
            "table": self.table.to_json(),
            "progress": self.progress.to_json(),
            "loadedChunks": sorted(self.chunks),
            "dropped": self.dropped,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Self:
        """The inverse of `to_json`; `read_offset` is `DeltaTargetContext.read_offset`."""
        progress = TableProgress.from_json(value["progress"], read_offset)
        return cls(
            value["replicator"],
            TableId.from_json(value["table"]),
            progress.epoch,
            progress,
            frozenset(value.get("loadedChunks", ())),
            value.get("dropped", False),
        )


class TableOwnership(ABC):
    """The rules by which one run writes one target table. A target subclasses it for the words and codes of its errors.

    Sends no request and stores nothing. Immutable, so safe from several threads.

    Attributes:
        table: The table at the source.
        owner: The replicator of this run, as `owner_of` returns it.
        epoch: The epoch of this run.
    """

    def __init__(self, table: TableId, context: DeltaTargetContext) -> None:
        self.table = table
        self.owner = owner_of(context)
        self.epoch = context.epoch
        self._generation = context.generation

    @abstractmethod
    def foreign(self, whose: str) -> ReplicatorError:
        """Returns the error for a table that is not this replicator's.

        Args:
            whose: What follows "the table is" in a message, for example "of replicator shop/orders".
        """

    @abstractmethod
    def superseded(self, epoch: int | None) -> FencedError:
        """Returns the error for a table that a newer run has taken over, with `SUPERSEDED_HINT`.

        Args:
            epoch: The epoch of the newer run; None when only the storage knows it.
        """

    def occupied(self, other: TableId) -> ReplicatorError:
        """Returns the error for a table that this replicator writes for `other`, another table at the source."""
        return self.foreign(f"of another table of this replicator: {other}")

    def check(self, record: TableRecord | None, *, former: TableId | None = None) -> None:
        """Raises an error unless this run may write the table.

        Epochs of two replicators are not compared, and a newer run decides which table at the source it writes.

        Args:
            record: What the newest commit says of the table; None for a table that is there without a record.
            former: The table's name before it was renamed, while the rename is going on.

        Raises:
            FencedError: When a newer run wrote the table or took it over (`superseded`).
            ReplicatorError: When it is not this replicator's (`foreign`), or holds another table that the source has
                not dropped (`occupied`).
        """
        record = self._owned(record)
        if record.epoch > self.epoch:
            raise self.superseded(record.epoch)
        if record.table not in {self.table, former} and not record.dropped:
            raise self.occupied(record.table)

    def check_read(self, record: TableRecord | None) -> TableRecord:
        """Returns the record of a table that is this replicator's; epochs are not compared, since nothing is written.

        Args:
            record: What the newest commit says of the table; None for a table that is there without a record.

        Raises:
            ReplicatorError: When it is not this replicator's (`foreign`), or holds another table (`occupied`).
        """
        record = self._owned(record)
        if record.table != self.table:
            raise self.occupied(record.table)
        return record

    def _owned(self, record: TableRecord | None) -> TableRecord:
        if record is None:
            raise self.foreign("not written by a replicator")
        if record.owner != self.owner:
            raise self.foreign(f"of replicator {record.owner}")
        return record

    def check_follows(self, record: TableRecord | None, follows: Position | None) -> None:
        """Raises an error when the table was deleted, or an older copy put in its place, while this run wrote it.

        A target that stores the record elsewhere than the rows checks besides that the table is there.

        Args:
            record: What the newest commit says of the table; None when there is no table.
            follows: `TableChanges.follows`, or that of a slice.

        Raises:
            RetryableError: RPL-4113; the runtime then asks for the table's progress, and decides by that.
        """
        if follows is None or (record is not None and record.has_reached(follows)):
            return
        found = None if record is None or record.progress is None else record.progress.position
        raise RetryableError(
            "the target's table is gone" if found is None else f"the target's table is at {found}, before {follows}",
            code="RPL-4113",
            table=str(self.table),
            position=str(follows),
            hint="tried again by itself; find out what "
            + (
                "deleted it: it is not created again until `replicator table resync NAME TABLE --in-place`"
                if found is None
                else "put it back: an older copy is copied again by itself"
            ),
        )

    def record(
        self, progress: TableProgress, before: TableRecord | None, *, dropped: bool | None = None
    ) -> TableRecord:
        """Returns what the next commit says of the table.

        The chunks of a finished snapshot are kept as long as the progress names its plan: the same plan may be begun
        again, and its rows must not be loaded twice.

        Args:
            progress: How far the table is after the commit; its epoch is this run's.
            before: What the commit before says; None for a new table.
            dropped: Whether the source has dropped the table; None when that stays as it was.
        """
        was_dropped = before is not None and before.dropped
        return TableRecord(
            self.owner,
            self.table,
            self.epoch,
            progress,
            chunks_after(progress, before),
            was_dropped if dropped is None else dropped,
        )

    def taken_over(self, progress: TableProgress) -> TableProgress:
        """The same progress under this run's epoch: stored, it keeps every older run from writing."""
        return replace(progress, epoch=self.epoch)

    def progress_at(self, before: TableProgress | None, position: Position, sequence: int = 0) -> TableProgress:
        """The progress after a commit that is no batch, such as a change of structure: snapshot state as it was.

        Args:
            before: The progress before it; None for a new table.
            position: How far the table is then.
            sequence: The sequence number of what is committed; a lower one than before is ignored.
        """
        if before is None:
            return TableProgress(self._generation, self.epoch, position, sequence)
        return replace(
            before,
            generation=self._generation,
            epoch=self.epoch,
            position=position,
            last_sequence=max(sequence, before.last_sequence),
            batch="",
        )

    def snapshot_begun(self, snapshot_id: str, position: Position) -> TableProgress:
        """The progress of an empty table that takes the chunks of the plan `snapshot_id`."""
        return TableProgress(
            self._generation, self.epoch, position, snapshot_chunks=frozenset(), snapshot_id=snapshot_id
        )

    def chunks_loaded(self, before: TableProgress, indexes: Iterable[int], rows: int = 0) -> TableProgress:
        """The progress after the chunks of these indexes, which have `rows` rows, were loaded as well."""
        loaded = (before.snapshot_chunks or frozenset()) | frozenset(indexes)
        return replace(before, epoch=self.epoch, snapshot_chunks=loaded, snapshot_rows=before.snapshot_rows + rows)

    def snapshot_finished(self, before: TableProgress, position: Position) -> TableProgress:
        """The progress after the last chunk: the table is at `position` and takes changes."""
        return replace(before, epoch=self.epoch, position=position, snapshot_chunks=None)


def owner_of(context: DeltaContext) -> str:
    """The replicator of a run, as targets store it: `namespace/name`."""
    return f"{context.namespace}/{context.replicator_name}"


def chunks_after(progress: TableProgress | None, before: TableRecord | None) -> frozenset[int]:
    """Indexes of the snapshot chunks in a table after a commit with `progress`; `before` is the record it replaces."""
    if progress is None:
        return frozenset()
    if progress.snapshot_chunks is not None:
        return progress.snapshot_chunks
    return frozenset() if before is None else before.chunks_of(progress.snapshot_id)
