"""One table's file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from replicator_sdk import Offset, TableProgress, TableSchema
from replicator_sdk.errors import FencedError, NeedsUserError
from replicator_sdk.failpoint import failpoint, register
from sqlite_files.values import Row, identity, stored

register("sqlite_files.commit.before", "sqlite_files.commit.after")

ReadOffset = Callable[[Mapping[str, bytes]], Offset]


def quoted(name: str) -> str:
    """A name for SQL."""
    return '"' + name.replace('"', '""') + '"'


class TableFile:
    """An open transaction on a table's file; everything in it is committed at once.

    Attributes:
        schema: The table's columns and key; None when the file is new.
        progress: What its last commit says.
    """

    def __init__(self, connection: sqlite3.Connection, read_offset: ReadOffset, owner: str) -> None:
        self._connection, self._owner = connection, owner
        connection.execute("CREATE TABLE IF NOT EXISTS _about (name TEXT PRIMARY KEY, value TEXT)")
        about = {name: json.loads(value) for name, value in connection.execute("SELECT name, value FROM _about")}
        if not about and connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows_'").fetchone():
            raise NeedsUserError(
                "the file is not of a replicator", code="SQF-0007", hint="move it away, or choose another `folder`"
            )
        if about.get("owner", owner) != owner:
            raise NeedsUserError(
                f"the file is of replicator {about['owner']}", code="SQF-0004", hint="choose another `folder`"
            )
        self.schema = TableSchema.from_json(about["schema"]) if "schema" in about else None
        self.progress = TableProgress.from_json(about["progress"], read_offset) if "progress" in about else None
        self.loaded: list[int] = about.get("loaded", [])

    def store(self, epoch: int, progress: TableProgress, schema: TableSchema, loaded: Iterable[int] = ()) -> None:
        """Put this beside the rows.

        Raises:
            FencedError: When a newer run has written the table.
        """
        self.check(epoch)
        self.schema, self.progress, self.loaded = schema, progress, sorted(loaded)
        about = {
            "owner": self._owner,
            "schema": schema.to_json(),
            "progress": progress.to_json(),
            "loaded": self.loaded,
        }
        self._connection.executemany(
            "INSERT OR REPLACE INTO _about VALUES (?, ?)", [(name, json.dumps(value)) for name, value in about.items()]
        )

    def check(self, epoch: int) -> None:
        """Raises FencedError when a newer run has written the table."""
        if self.progress is not None and self.progress.epoch > epoch:
            raise FencedError("a newer run writes this table", code="SQF-0003", hint="stop this run")

    def create(self, schema: TableSchema, rows: Iterable[Row] = ()) -> None:
        """An empty table, or one with these rows, in place of the one that is there."""
        listed = ", ".join(quoted(name) for name in schema.names)
        self._connection.execute("DROP TABLE IF EXISTS rows_")
        self._connection.execute(f"CREATE TABLE rows_ (_identity TEXT NOT NULL, {listed})")
        self._connection.execute("CREATE INDEX by_identity ON rows_ (_identity)")
        for row in rows:
            self.put(schema, row)

    def put(self, schema: TableSchema, row: Row) -> None:
        """Add a row."""
        marks = ", ".join("?" * (len(schema.names) + 1))
        listed = ", ".join(quoted(name) for name in ("_identity", *schema.names))
        values = [identity(row, schema.primary_key or schema.names), *(stored(row[name]) for name in schema.names)]
        self._connection.execute(f"INSERT INTO rows_ ({listed}) VALUES ({marks})", values)

    def take(self, schema: TableSchema, row: Row) -> Row | None:
        """Remove one row that is the same row, and return its stored values; None when there is none."""
        listed = ", ".join(quoted(name) for name in ("rowid", *schema.names))
        found = self._connection.execute(
            f"SELECT {listed} FROM rows_ WHERE _identity = ? LIMIT 1",
            [identity(row, schema.primary_key or schema.names)],
        ).fetchone()
        if found is None:
            return None
        self._connection.execute("DELETE FROM rows_ WHERE rowid = ?", found[:1])
        return dict(zip(schema.names, found[1:], strict=True))

    def unused_pages(self) -> int:
        """How many pages of the file hold nothing."""
        [[count]] = self._connection.execute("PRAGMA freelist_count")
        return int(count)

    def give_back_a_page(self) -> bool:
        """Make the file a page smaller; returns whether there was one to give back."""
        before = self.unused_pages()
        self._connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
        return self.unused_pages() < before

    def sort(self) -> bool:
        """Put the rows in the order of their identity; returns whether they were in another."""
        assert self.schema is not None
        found = [identity for [identity] in self._connection.execute("SELECT _identity FROM rows_ ORDER BY rowid")]
        if found == sorted(found):
            return False
        self._connection.execute("CREATE TEMP TABLE kept AS SELECT * FROM rows_ ORDER BY _identity")
        self.create(self.schema)
        self._connection.execute("INSERT INTO rows_ SELECT * FROM kept")
        self._connection.execute("DROP TABLE kept")
        return True

    def run(self, statement: str, values: Iterable[Any] = ()) -> None:
        """A change of the table `rows_`."""
        self._connection.execute(statement, tuple(values))


@contextmanager
def transaction(path: Path, read_offset: ReadOffset, owner: str) -> Iterator[TableFile]:
    """Committed at the end, undone on an error.

    Raises:
        NeedsUserError: When the file is of another replicator than `owner`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield TableFile(connection, read_offset, owner)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        failpoint("sqlite_files.commit.before")
        connection.execute("COMMIT")
        failpoint("sqlite_files.commit.after")
