"""Brings the database's tables to this release's, once however many services start at once."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from replicator_sdk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

NEWER_DATABASE = "RPL-1509"
REVISION = "0001"
"""The newest in `migrations/versions`."""
_SCRIPTS = Path(__file__).with_name("migrations")
_LOCK = 0x7265706C
"""Names the lock in Postgres; no other program takes one of this number in a database of ours."""


def upgrade(engine: Engine) -> None:
    """Create or change what this release needs. All of it, or nothing, is done when this ends.

    Raises:
        ConfigError: RPL-1509 when a newer release has changed the tables.
    """
    with engine.connect() as connection:
        if revision_of(connection) == REVISION:
            return  # alembic need not be loaded
    import alembic.command  # before others wait for the lock  # noqa: F401

    with _alone(engine) as connection:
        found = revision_of(connection)
        if found != REVISION:
            _apply(connection, found)


def revision_of(connection: Connection) -> str | None:
    """The revision of the database's tables; None when it has none yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def _apply(connection: Connection, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    settings = Config(attributes={"connection": connection})
    settings.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    known = {revision.revision for revision in ScriptDirectory.from_config(settings).walk_revisions()}
    if found is not None and found not in known:
        raise ConfigError(
            f'the database is of a newer release: its tables have the revision "{found}", and this one knows "{REVISION}" at most',
            code=NEWER_DATABASE,
            hint="install that release again, or give another database with --store",
        )
    command.upgrade(settings, REVISION)


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other service's overlaps."""
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            # Another service's migration, or this one's, takes as long as it takes.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
            yield connection
        return
    # The driver would begin at the first change only, when another service may have begun as well.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")
