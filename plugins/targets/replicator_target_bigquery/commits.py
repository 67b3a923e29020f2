"""`_replicator_commits`: what each table's last commit says of itself, one row a commit, in the same transaction.

Rows are only ever added: tables commit side by side, and BigQuery cancels one of two transactions that *change* rows of
one table. A writer goes on from the newest row it has seen and, inside its transaction, asks whether that is still the
newest (`checks`). Two writers of one table cannot both pass: their MERGEs change the same table, which BigQuery does
not let two transactions do.

Snapshot chunks are loaded by jobs, which no transaction holds. Their intent is a row of its own (`LOADING`), written before
the job is asked for: whoever takes the table over finds it and makes sure that the job has run or never will.
"""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from replicator_sdk.offset import Offset, Position
from replicator_sdk.schema import TableId
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.place import Place
from replicator_target_bigquery.sql.script import DONE, FENCED, MOVED
from replicator_target_bigquery.sql.text import text

CLAIMED: Final = "claimed"
LOADING: Final = "loading"
COMMITTED: Final = "committed"
DROPPED: Final = "dropped"
DDL_BEGUN: Final = "ddlBegun"
APPENDING: Final = "appending"
_WITHOUT_DATA: Final = frozenset({CLAIMED, LOADING, DDL_BEGUN, APPENDING})
_KEPT_DAYS: Final = 7

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
class Commit:
    """One row.

    Attributes:
        revision: Rises with each row of a table.
        kind: What it stands for.
        owner: The replicator that wrote it, as `namespace/name`.
        epoch: The lease epoch that wrote it.
        batch: The identity of what was committed; no two commits of a table share one.
        source: The table at the source.
        progress: What the table's commit says of itself; as it was, in rows without data.
        chunks: Indexes of snapshot chunks in the table, also once the snapshot is finished.
        note: For `LOADING` the load job's name, for `APPENDING` the stream's, for `DDL_BEGUN` the columns before, for
            `COMMITTED` the former columns that are kept, if there are any.
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


@dataclass(frozen=True, slots=True)
class Standing:
    """What a writer knows of a table: the rows it goes on from.

    Attributes:
        rows: The last one with data and all that came after it, newest first; empty when nobody ever wrote the table.
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
        return next((row for row in self.rows if row.kind not in _WITHOUT_DATA), None)

    @property
    def progress(self) -> TableProgress | None:
        """How far the table is."""
        return self.last.progress if self.last else None

    @property
    def dropped(self) -> bool:
        """Whether the last thing that happened is that the table was dropped."""
        return self.last is not None and self.last.kind == DROPPED

    @property
    def pending(self) -> tuple[Commit, ...]:
        """Loads of which nobody has said how they ended, oldest first."""
        return self._since(LOADING)

    @property
    def appending(self) -> tuple[Commit, ...]:
        """Streams that were to be committed, of which nobody has said that they were."""
        return self._since(APPENDING)

    def stands_at(self, position: Position) -> bool:
        """Whether `position` is applied already."""
        progress = self.progress
        return progress is not None and position <= progress.position

    @property
    def kept(self) -> frozenset[str]:
        """Columns that are not the source's any more and that `schemaChanges` keeps, in lower case."""
        noted = self.last.note if self.last is not None and self.last.kind == COMMITTED else ""
        return frozenset(json.loads(noted)) if noted else frozenset()

    @property
    def altering(self) -> Commit | None:
        """The note that a change of structure was begun, when nobody has said that it is done."""
        after = self.last.revision if self.last else 0
        return next((row for row in self.rows if row.kind == DDL_BEGUN and row.revision > after), None)

    def _since(self, kind: str) -> tuple[Commit, ...]:
        """Rows of a kind since the last one with data, oldest first."""
        after = self.last.revision if self.last else 0
        return tuple(row for row in reversed(self.rows) if row.kind == kind and row.revision > after)

    def followed_by(self, row: Commit) -> Standing:
        """After one more row of ours."""
        return Standing((row, *(self.rows if row.kind in _WITHOUT_DATA else ())))

    def checks(self, epoch: int, batch: str) -> list[tuple[str, str]]:
        """What must not hold of the table's rows when one is added: conditions and the outcomes they stand for."""
        newest = sum(1 for row in self.rows if row.revision >= self.revision)
        return [
            (f"MAX(epoch) > {epoch}", FENCED),
            (f"COUNTIF(epoch = {epoch} AND batch = {text(batch)}) > 0", DONE),
            (f"COUNTIF(revision >= {self.revision}) != {newest}", MOVED),
        ]


def rows_of(place: Place) -> str:
    """A table's rows, as `FROM …`."""
    return f"FROM {place.commits_sql} WHERE table_name = {text(place.table)}"


def insert(place: Place, row: Commit) -> str:
    """The statement that adds a row."""
    names = ", ".join(column.name for column in COLUMNS)
    return f"INSERT INTO {place.commits_sql} ({names})\nVALUES ({', '.join(_values(place, row))})"


def insert_if_newer(place: Place, row: Commit) -> str:
    """The statement that adds a row numbered after the newest, if the table has rows and all are of older epochs."""
    names = ", ".join(column.name for column in COLUMNS)
    values = _values(place, row)
    values[1] = "newest + 1"
    rows = f"SELECT MAX(revision) AS newest, MAX(epoch) AS latest FROM {place.commits_sql}"
    return (
        f"INSERT INTO {place.commits_sql} ({names})\n"
        f"SELECT {', '.join(values)} FROM ({rows} WHERE table_name = {text(place.table)}) WHERE latest < {row.epoch}"
    )


def select(place: Place) -> str:
    """The statement that reads the rows of a `Standing`."""
    names = ", ".join(column.name for column in COLUMNS[:-1])
    return (
        f"SELECT {names} FROM {place.commits_sql} WHERE table_name = {text(place.table)} AND revision >= (\n"
        f"  SELECT IFNULL(MAX(revision), 0) FROM {place.commits_sql}\n"
        f"  WHERE table_name = {text(place.table)} AND kind NOT IN ({_kinds_without_data()}))\n"
        f"ORDER BY revision DESC, epoch DESC"
    )


def prune(place: Place) -> str:
    """The statement that removes rows of all tables of a dataset that nobody will ask for again."""
    return (
        f"DELETE FROM {place.commits_sql} AS C\n"
        f"WHERE C.committed_at < TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL {_KEPT_DAYS} DAY) AND EXISTS (\n"
        f"  SELECT 1 FROM (SELECT table_name, MAX(revision) AS newest FROM {place.commits_sql}\n"
        f"    WHERE kind NOT IN ({_kinds_without_data()}) GROUP BY table_name) AS N\n"
        f"  WHERE N.table_name = C.table_name AND C.revision < N.newest)"
    )


def _kinds_without_data() -> str:
    return ", ".join(text(kind) for kind in sorted(_WITHOUT_DATA))


def read_rows(rows: Sequence[Mapping[str, Any]], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Standing:
    """What the rows of `select` say."""
    return Standing(tuple(_read(row, read_offset) for row in rows))


def _values(place: Place, row: Commit) -> list[str]:
    progress = "NULL" if row.progress is None else text(json.dumps(row.progress.to_json()))
    return [
        text(place.table),
        str(row.revision),
        text(row.kind),
        text(row.owner),
        str(row.epoch),
        text(row.batch),
        text(json.dumps(row.source.to_json())),
        progress,
        text(json.dumps(sorted(row.chunks))),
        text(row.note),
        "CURRENT_TIMESTAMP()",
    ]


def _read(row: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Commit:
    progress = row["progress"]
    return Commit(
        row["revision"],
        row["kind"],
        row["owner"],
        row["epoch"],
        row["batch"],
        TableId.from_json(json.loads(row["source"])),
        None if progress is None else TableProgress.from_json(json.loads(progress), read_offset),
        frozenset(json.loads(row["chunks"])),
        row["note"],
    )
