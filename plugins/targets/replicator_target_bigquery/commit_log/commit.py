"""The rows of `_replicator_commits`: one for each commit of a table, written in the same transaction.

Rows are only added: tables commit in parallel, and BigQuery cancels one of two transactions that *change* rows of
one table. A writer continues from the newest row it has read and checks inside its transaction whether that is still
the newest (`checks`). Two writers of one table cannot both pass: their MERGEs change the same table, which BigQuery does
not let two transactions do.

Snapshot chunks are loaded by jobs, outside every transaction. A row of kind `LOADING` is written before the job is
requested: the run that takes the table over finds it and makes sure that the job has run or never will.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from replicator_sdk.authoring.table_ownership import TableRecord
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.sql.script import DONE, FENCED, MOVED
from replicator_target_bigquery.sql.text import text

CLAIMED: Final = "claimed"
LOADING: Final = "loading"
COMMITTED: Final = "committed"
DROPPED: Final = "dropped"
DDL_BEGUN: Final = "ddlBegun"
APPENDING: Final = "appending"
WITHOUT_DATA: Final = frozenset({CLAIMED, LOADING, DDL_BEGUN, APPENDING})

COLUMNS: Final = (
    Field("table_name", "STRING", "REQUIRED"),
    Field("revision", "INT64", "REQUIRED"),
    Field("kind", "STRING", "REQUIRED"),
    Field("owner", "STRING", "REQUIRED"),
    Field("epoch", "INT64", "REQUIRED"),
    Field("batch", "STRING"),
    Field("source", "STRING"),
    Field("progress", "STRING"),
    Field("chunks", "STRING"),
    Field("note", "STRING"),
    Field("committed_at", "TIMESTAMP"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Which table and which commit log a commit was written to, by when both were created, in milliseconds since 1970.

    A table that has another time beside the same log was put there by another program: an older state of it, by time travel or
    from a table snapshot, or any other. Where a whole dataset was copied, both have other times.

    Attributes:
        table: Of the table.
        log: Of `_replicator_commits`.
    """

    table: int
    log: int

    def is_replaced_by(self, other: Place) -> bool:
        """Whether `other`, which is there now, is another table beside the same log."""
        return self.log == other.log and self.table != other.table


@dataclass(frozen=True, slots=True)
class Commit:
    """One row.

    Attributes:
        revision: Rises with each row of a table.
        kind: What was committed; one of the constants of this module.
        owner: The replicator that wrote it, as `namespace/name`.
        epoch: The lease epoch that wrote it.
        batch: The identity of what was committed; no two commits of a table share one.
        source: The table at the source.
        progress: How far the table is; unchanged in rows without data.
        chunks: Indexes of snapshot chunks in the table, also once the snapshot is finished.
        note: For `LOADING` the load job's name, for `APPENDING` the stream's, for `DDL_BEGUN` the columns before, for
            `COMMITTED` the former columns that are kept, if there are any.
        place: Which table it is of; None when that is not known, as of commits of earlier releases.
    """

    revision: int
    kind: str
    owner: str
    epoch: int
    batch: str
    source: TableId
    progress: TableProgress | None = None
    chunks: frozenset[int] = frozenset()
    note: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class TableState:
    """What a writer knows of a table: the rows of the commit log it continues from.

    Attributes:
        rows: The last one with data and all that came after it, newest first; empty when no run ever wrote the table.
    """

    rows: tuple[Commit, ...] = field(default=())

    @property
    def revision(self) -> int:
        """The newest row's."""
        return self.rows[0].revision if self.rows else 0

    @property
    def epoch(self) -> int:
        """The highest epoch that touched the table."""
        return max((row.epoch for row in self.rows), default=0)

    @property
    def last(self) -> Commit | None:
        """The last row that came with data or structure."""
        return next((row for row in self.rows if row.kind not in WITHOUT_DATA), None)

    @property
    def progress(self) -> TableProgress | None:
        """How far the table is."""
        return self.last.progress if self.last else None

    @property
    def place(self) -> Place | None:
        """Which table the last commit is of; None when that is not known, or while a change of structure is incomplete."""
        return self.last.place if self.last and not self.dropped and self.altering is None else None

    @property
    def dropped(self) -> bool:
        """Whether the last commit dropped the table."""
        return self.last is not None and self.last.kind == DROPPED

    @property
    def pending(self) -> tuple[Commit, ...]:
        """Announced loads without a known result, oldest first."""
        return self._since(LOADING)

    @property
    def appending(self) -> tuple[Commit, ...]:
        """Announced commits of streams without a known result, oldest first."""
        return self._since(APPENDING)

    @property
    def record(self) -> TableRecord | None:
        """What the rows say of the table; None when no run ever wrote it."""
        if not self.rows:
            return None
        newest, chunks = self.rows[0], self.last.chunks if self.last else frozenset()
        return TableRecord(newest.owner, newest.source, self.epoch, self.progress, chunks, self.dropped)

    def has_reached(self, position: Position) -> bool:
        """Whether `position` is applied already."""
        record = self.record
        return record is not None and record.has_reached(position)

    @property
    def kept(self) -> frozenset[str]:
        """Columns that the source no longer has and `schemaChanges` keeps, in lower case."""
        noted = self.last.note if self.last is not None and self.last.kind == COMMITTED else ""
        return frozenset(json.loads(noted)) if noted else frozenset()

    @property
    def altering(self) -> Commit | None:
        """The note that a change of structure was begun; None when it is done, or there was none."""
        after = self.last.revision if self.last else 0
        return next((row for row in self.rows if row.kind == DDL_BEGUN and row.revision > after), None)

    def _since(self, kind: str) -> tuple[Commit, ...]:
        """Rows of a kind since the last one with data, oldest first."""
        after = self.last.revision if self.last else 0
        return tuple(row for row in reversed(self.rows) if row.kind == kind and row.revision > after)

    def followed_by(self, row: Commit) -> TableState:
        """The state after this run has added a row."""
        return TableState((row, *(self.rows if row.kind in WITHOUT_DATA else ())))

    def checks(self, epoch: int, batch: str) -> list[tuple[str, str]]:
        """Conditions that must not hold of the table's rows when one is added, with their outcomes."""
        newest = sum(1 for row in self.rows if row.revision >= self.revision)
        return [
            (f"MAX(epoch) > {epoch}", FENCED),
            (f"COUNTIF(epoch = {epoch} AND batch = {text(batch)}) > 0", DONE),
            (f"COUNTIF(revision >= {self.revision}) != {newest}", MOVED),
        ]
