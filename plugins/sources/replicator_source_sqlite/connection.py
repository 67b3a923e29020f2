"""Opens SQLite databases, and raises SQLite's errors as `ReplicatorError`s."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

from replicator_sdk.errors import NeedsUserError, RetryableError

BUSY_SECONDS = 10.0
OLDEST = (3, 37)


def quoted(name: str) -> str:
    """`name` as an SQL identifier; any name is allowed."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def connect(path: Path, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection in autocommit mode, closed at the end of the block; used only by the thread that opened it.

    Text that is not UTF-8 is returned as a string with surrogates, so that it fails its column instead of the query.

    Raises:
        NeedsUserError: RPL-3502 when the file does not exist or is not a database, RPL-3503 when SQLite is too old.
        RetryableError: RPL-3504 when another connection locks the database longer than `BUSY_SECONDS`.
    """
    if sqlite3.sqlite_version_info < OLDEST:
        raise NeedsUserError(
            f"SQLite {sqlite3.sqlite_version} is older than 3.37", code="RPL-3503", hint="use a newer Python or SQLite"
        )
    with translated_errors(path):
        database = sqlite3.connect(
            f"file:{quote(str(path))}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
        try:
            database.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            if read_only:
                database.execute("PRAGMA query_only = 1")
            yield database
        finally:
            database.close()


def file_identity(path: Path) -> tuple[int, int]:
    """Device and inode of the file; zeros when the path names no file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def check_file(path: Path, file: tuple[int, int]) -> None:
    """Check that the path still names the file that was opened; an open connection would continue with the old one.

    Raises:
        RetryableError: RPL-3513 when it names another one, or none.
    """
    if file_identity(path) != file:
        raise RetryableError(
            f"the file {path} was replaced or removed while it was read",
            code="RPL-3513",
            hint="nothing to do when it is a newer state of the same database: the attempt is repeated with it",
        )


@contextmanager
def transaction(database: sqlite3.Connection, *, write: bool = False) -> Iterator[None]:
    """One transaction, with a consistent view of the database; rolled back on any error."""
    database.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as the `ReplicatorError`s that say the recovery."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise RetryableError(
                f"the SQLite database {path} is locked by another connection: {text}",
                code="RPL-3504",
                hint="end long transactions, or set PRAGMA journal_mode=WAL",
            ) from error
        if "unable to open" in text or "readonly" in text:
            raise _unusable(path, text) from error
        raise
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            raise _unusable(path, str(error)) from error
        raise


def _unusable(path: Path, text: str) -> NeedsUserError:
    return NeedsUserError(
        f"the SQLite database {path} cannot be used: {text}",
        code="RPL-3502",
        hint="check that the path names an existing database file that this user may write",
    )
