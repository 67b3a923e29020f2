"""Statements that read, write and prune `_replicator_commits`."""
# ruff: noqa: S608 - names pass through `sql.text.name`, values through `text` or are numbers

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from replicator_sdk.offset import Offset
from replicator_sdk.schema import TableId
from replicator_sdk.target import PROGRESS_FORM, TableProgress
from replicator_target_bigquery.commit_log.commit import COLUMNS, WITHOUT_DATA, Commit, Place, TableState
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.sql.text import text

_KEPT_DAYS: Final = 7
_PLACE: Final = (
    "place"  # within `progress`: a log of an earlier release has no column for it, and earlier releases pass over it
)


def rows_of(ref: TableRef) -> str:
    """A table's rows, as `FROM …`."""
    return f"FROM {ref.commits_sql} WHERE table_name = {text(ref.table)}"


def insert(ref: TableRef, row: Commit) -> str:
    """The statement that adds a row."""
    names = ", ".join(column.name for column in COLUMNS)
    return f"INSERT INTO {ref.commits_sql} ({names})\nVALUES ({', '.join(_values(ref, row))})"


def claim(ref: TableRef, row: Commit, *, every_table: bool = False) -> str:
    """The statement that adds a row numbered after the newest, where that is of the same owner and no row is of this epoch.

    Where a later release has stored progress in a form that this one does not know nothing is added: reading it fails next.

    Args:
        ref: The table.
        row: The row to add; number and source are those of the newest.
        every_table: Whether it is added for every such table of the dataset.
    """
    names = ", ".join(column.name for column in COLUMNS)
    values = dict(zip((column.name for column in COLUMNS), _values(ref, row), strict=True))
    values |= {"table_name": "table_name", "revision": "newest + 1", "source": "source"}
    newest = "ORDER BY revision DESC, epoch DESC LIMIT 1)[OFFSET(0)]"
    return (
        f"INSERT INTO {ref.commits_sql} ({names})\n"
        f"SELECT {', '.join(values.values())} FROM (\n"
        f"  SELECT table_name, MAX(revision) AS newest, MAX(epoch) AS latest,\n"
        f"    MAX(IFNULL(SAFE_CAST(JSON_VALUE(progress, '$.form') AS INT64), 1)) AS form,\n"
        f"    ARRAY_AGG(owner {newest} AS holder, ARRAY_AGG(source {newest} AS source\n"
        f"  FROM {ref.commits_sql} WHERE {_which(ref, every_table=every_table)} GROUP BY table_name)\n"
        f"WHERE latest < {row.epoch} AND holder = {text(row.owner)} AND form <= {PROGRESS_FORM}"
    )


def select(ref: TableRef, *, every_table: bool = False) -> str:
    """The statement that reads the rows of a `TableState`, or of those of every table of the dataset."""
    names = ", ".join(f"C.{column.name}" for column in COLUMNS[:-1])
    which = _which(ref, every_table=every_table)
    return (
        f"SELECT {names} FROM {ref.commits_sql} AS C JOIN (\n"
        f"  SELECT table_name, IFNULL(MAX(IF(kind IN ({_kinds_without_data()}), NULL, revision)), 0) AS since\n"
        f"  FROM {ref.commits_sql} WHERE {which} GROUP BY table_name) AS L\n"
        f"ON L.table_name = C.table_name AND C.revision >= L.since\n"
        f"ORDER BY C.table_name, C.revision DESC, C.epoch DESC"
    )


def prune(ref: TableRef) -> str:
    """The statement that deletes old rows of all tables of a dataset; no run reads them again."""
    return (
        f"DELETE FROM {ref.commits_sql} AS C\n"
        f"WHERE C.committed_at < TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL {_KEPT_DAYS} DAY) AND EXISTS (\n"
        f"  SELECT 1 FROM (SELECT table_name, MAX(revision) AS newest FROM {ref.commits_sql}\n"
        f"    WHERE kind NOT IN ({_kinds_without_data()}) GROUP BY table_name) AS N\n"
        f"  WHERE N.table_name = C.table_name AND C.revision < N.newest)"
    )


def _which(ref: TableRef, *, every_table: bool) -> str:
    return "TRUE" if every_table else f"table_name = {text(ref.table)}"


def _kinds_without_data() -> str:
    return ", ".join(text(kind) for kind in sorted(WITHOUT_DATA))


def read_rows(rows: Sequence[Mapping[str, Any]], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> TableState:
    """The rows of `select` as a `TableState`."""
    return TableState(tuple(_read(row, read_offset) for row in rows))


def _values(ref: TableRef, row: Commit) -> list[str]:
    progress = "NULL" if row.progress is None else text(json.dumps(_stored(row.progress, row.place)))
    return [
        text(ref.table),
        str(row.revision),
        text(row.kind),
        text(row.owner),
        str(row.epoch),
        text(row.batch),
        text(json.dumps(row.source.to_json())),
        progress,
        text(json.dumps(packed(row.chunks))),
        text(row.note),
        "CURRENT_TIMESTAMP()",
    ]


def packed(chunks: Collection[int]) -> list[int | list[int]]:
    """Indexes in order, two or more that follow each other as their first and last: a statement holds 1 MB at most."""
    runs: list[list[int]] = []
    for index in sorted(chunks):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return [first if first == last else [first, last] for first, last in runs]


def unpacked(stored: Sequence[int | list[int]]) -> frozenset[int]:
    """The inverse of `packed`; takes a plain list of indexes as well, as earlier versions stored it."""
    found: set[int] = set()
    for item in stored:
        found.update([item] if isinstance(item, int) else range(item[0], item[1] + 1))
    return frozenset(found)


def _stored(progress: TableProgress, place: Place | None) -> dict[str, Any]:
    facts = progress.to_json()
    if progress.snapshot_chunks is not None:
        facts["snapshotChunks"] = packed(progress.snapshot_chunks)
    return facts if place is None else facts | {_PLACE: [place.table, place.log]}


def _read_progress(stored: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(stored)
    chunks = facts.get("snapshotChunks")
    return facts if chunks is None else facts | {"snapshotChunks": sorted(unpacked(chunks))}


def _read(row: Mapping[str, Any], read_offset: Callable[[Mapping[str, bytes]], Offset]) -> Commit:
    progress = None if row["progress"] is None else _read_progress(row["progress"])
    place = None if progress is None else progress.get(_PLACE)
    return Commit(
        row["revision"],
        row["kind"],
        row["owner"],
        row["epoch"],
        row["batch"],
        TableId.from_json(json.loads(row["source"])),
        None if progress is None else TableProgress.from_json(progress, read_offset),
        unpacked(json.loads(row["chunks"])),
        row["note"],
        None if place is None else Place(*place),
    )
