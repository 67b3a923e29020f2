"""The service's database: SQLite by default, Postgres by its URL."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from replicator_runtime.service.store.upgrade import upgrade
from replicator_sdk.errors import ConfigError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Engine

WRONG_URL = "RPL-1511"
UNUSABLE = "RPL-1512"
_WAIT_SECONDS = 15
_PREPARE_SECONDS, _PAUSE_SECONDS = 120, 0.1
_BUSY = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_BUSY_RECOVERY}
)
_CONNECTIONS, _MORE_CONNECTIONS = 10, 30
"""Of Postgres; there are never more than forty requests at work."""
_POSTGRES = {
    "connect_timeout": _WAIT_SECONDS,
    # Without these a thread waits for the kernel, a quarter of an hour and more, when a network drops everything.
    "tcp_user_timeout": 1000 * _WAIT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "options": f"-c statement_timeout={1000 * _WAIT_SECONDS} -c lock_timeout={1000 * _WAIT_SECONDS}",
}


class Database:
    """Sessions of one database. Safe from any thread.

    Args:
        url: SQLAlchemy's: `sqlite:///PATH` or `postgresql://USER@HOST/NAME`.

    Raises:
        ConfigError: RPL-1511 when it is neither.
    """

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        if self._url.drivername == "sqlite":
            self.engine: Engine = create_engine(self._url, connect_args={"timeout": _WAIT_SECONDS})
            event.listen(self.engine, "connect", _prepare_sqlite)
        else:
            self.engine = create_engine(
                self._url,
                pool_pre_ping=True,
                pool_size=_CONNECTIONS,
                max_overflow=_MORE_CONNECTIONS,
                pool_timeout=_WAIT_SECONDS,
                connect_args=_POSTGRES,
            )

    def prepare(self) -> None:
        """Bring the tables to this release's; a SQLite file is created for this user alone.

        Raises:
            ConfigError: RPL-1509 when a newer release has changed them.
            RetryableError: RPL-1512 when the database cannot be reached, or refuses.
        """
        try:
            if self._url.drivername == "sqlite" and self._url.database:
                _create_file(Path(self._url.database))
            _patiently(lambda: upgrade(self.engine))
        except (SQLAlchemyError, OSError) as error:
            cause = getattr(error, "orig", None) or error
            raise RetryableError(
                f"the service's database cannot be used: {' '.join(str(cause).split())}",
                code=UNUSABLE,
                hint="look whether --store names it, and whether this user may create tables there",
            ) from error

    @contextmanager
    def session(self) -> Iterator[Session]:
        """One transaction: committed at the end, rolled back by an exception."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def change(self) -> Iterator[Session]:
        """The same for what reads before it writes: other transactions' changes come before it or after it.

        SQLite is locked for writing from its beginning; for Postgres it locks the rows that it reads (`with_for_update`).
        """
        with self.session() as session:
            if self._url.drivername == "sqlite":
                # The driver would begin at the first write only, after what was read may have changed.
                session.execute(text("BEGIN IMMEDIATE"))
            yield session

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def _patiently(prepare: Callable[[], None]) -> None:
    """Wait while another process prepares the same file: some of SQLite's locks are refused at once, whatever its timeout is."""
    until = time.monotonic() + _PREPARE_SECONDS
    while True:
        try:
            return prepare()
        except OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", None) not in _BUSY or time.monotonic() > until:
                raise
        time.sleep(_PAUSE_SECONDS)


def _checked(url: str) -> URL:
    """The URL with the driver that is used."""
    try:
        found = make_url(url)
    except ArgumentError:
        raise _wrong("it cannot be read") from None
    kind = found.drivername.partition("+")[0]
    if kind == "sqlite":
        if found.database in {None, "", ":memory:"}:
            raise _wrong("it names no file")
        return found.set(drivername="sqlite")
    if kind in {"postgresql", "postgres"}:
        return found.set(drivername="postgresql+psycopg")
    raise _wrong(f"it names a {kind} database")


def _wrong(why: str) -> ConfigError:
    return ConfigError(
        f"the URL of the service's database is wrong: {why}",
        code=WRONG_URL,
        hint="write sqlite:///PATH, or postgresql://USER@HOST/NAME",
    )


def _create_file(path: Path) -> None:
    """Create an empty file that this user alone may read, unless it exists; SQLite gives its other files the same mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _prepare_sqlite(connection: object, record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]  # a DB-API connection
    # The first one before anything is written: it lets a file shrink, and has no effect on one that has tables.
    for pragma in ("auto_vacuum=FULL", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
