"""The tables of the service's database, in SQLAlchemy's terms; drafts have the columns of seed 001's data model.

Times are in UTC. Documents are JSON as text, so that SQLite and Postgres keep the same bytes. Secrets are references
(`${secure(name)}`) only; no resolved value is ever stored.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import DateTime, Index, Integer, LargeBinary, String, Text, TypeDecorator
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAME_LENGTH = 255


class UtcDateTime(TypeDecorator[datetime]):
    """A moment; SQLite keeps no zone, so UTC is added when it is read."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The moment in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The moment with its zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """All tables."""


class Draft(Base):
    """A pipeline that is being written (seed 001, "Data Model")."""

    __tablename__ = "drafts"

    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    generation: Mapped[int] = mapped_column(Integer, primary_key=True, default=1)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)
    label: Mapped[str] = mapped_column(Text, default="")
    config: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(Integer, default=1)
    """Grows with each change; the draft's ETag."""


class Pipeline(Base):
    """A pipeline that was created, and whether it is to run."""

    __tablename__ = "pipelines"

    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)
    config: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(Integer, default=1)
    wanted: Mapped[str] = mapped_column(String(16), default="stopped")
    """`started` or `stopped`: what the supervisor brings about; `deleting` while its removal is not finished."""
    deletion: Mapped[str] = mapped_column(Text, default="")
    """The options of `replicator delete` while it is `deleting`, a JSON array."""


class Instance(Base):
    """One process of a pipeline that a launcher has started; the newest of a pipeline is the one that may live."""

    __tablename__ = "instances"
    __table_args__ = (Index("instances_of_pipeline", "namespace", "name", "instance_id"),)

    instance_id: Mapped[str] = mapped_column(String(26), primary_key=True)
    """A ULID."""
    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH))
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    launcher: Mapped[str] = mapped_column(String(32))
    handle: Mapped[str] = mapped_column(Text, default="")
    """By which the launcher finds it again, known before it begins: JSON."""
    command: Mapped[str] = mapped_column(String(16), default="run")
    """Of the command line: `run`, or `delete`."""
    config_version: Mapped[int] = mapped_column(Integer)
    started: Mapped[datetime] = mapped_column(UtcDateTime)
    ended: Mapped[datetime | None] = mapped_column(UtcDateTime)
    exit_code: Mapped[int | None] = mapped_column(Integer)
    restarts: Mapped[int] = mapped_column(Integer, default=0)
    """How many starts in a row have failed before this one."""
    dismissed: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When someone asked that it end, or that another follow it; however it ends, that is no failure."""
    error: Mapped[str] = mapped_column(Text, default="")
    """The error that it ended with: JSON with `code`, `message` and `hint`."""


class Supervisor(Base):
    """The service that starts and stops the processes of all pipelines; there is one row at most."""

    __tablename__ = "supervisors"

    supervisor_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    holder: Mapped[str] = mapped_column(String(26))
    """A ULID of the service's start."""
    host: Mapped[str] = mapped_column(String(NAME_LENGTH))
    work_folder: Mapped[str] = mapped_column(Text)
    renewed: Mapped[datetime] = mapped_column(UtcDateTime)


class Job(Base):
    """A command of the command line that the service runs for someone."""

    __tablename__ = "jobs"
    __table_args__ = (Index("jobs_of_pipeline", "namespace", "name", "job_id"), Index("jobs_by_state", "state"))

    job_id: Mapped[str] = mapped_column(String(26), primary_key=True)
    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH))
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    command: Mapped[str] = mapped_column(Text)
    """Its words, JSON."""
    by: Mapped[str] = mapped_column(String(NAME_LENGTH))
    state: Mapped[str] = mapped_column(String(16))
    """`waiting`, `running`, `done`, `failed`, `cancelled`, `lost` (the service ended while it ran)."""
    started: Mapped[datetime] = mapped_column(UtcDateTime)
    ended: Mapped[datetime | None] = mapped_column(UtcDateTime)
    exit_code: Mapped[int | None] = mapped_column(Integer)
    output: Mapped[str] = mapped_column(Text, default="")
    """The envelope that it printed, JSON."""


class Connection(Base):
    """The settings of a source or a target, by which several pipelines reach it."""

    __tablename__ = "connections"

    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)
    plugin: Mapped[str] = mapped_column(Text)
    """A stage's `plugin`, JSON: name, type, properties."""
    version: Mapped[int] = mapped_column(Integer, default=1)


class Token(Base):
    """A token, by its hash."""

    __tablename__ = "tokens"

    token_id: Mapped[str] = mapped_column(String(26), primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32), unique=True)
    label: Mapped[str] = mapped_column(String(NAME_LENGTH), default="")
    role: Mapped[str] = mapped_column(String(16))
    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH))
    """The namespace it is for; `*` for all."""
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    expires: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked: Mapped[datetime | None] = mapped_column(UtcDateTime)


class PageSession(Base):
    """A browser in which someone has given a token to the page."""

    __tablename__ = "sessions"

    digest: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)
    """Of the cookie's text."""
    token_id: Mapped[str] = mapped_column(String(26))
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    expires: Mapped[datetime] = mapped_column(UtcDateTime)


class AuditEntry(Base):
    """A change that was asked for, and what was answered."""

    __tablename__ = "audit"
    __table_args__ = (Index("audit_of_namespace", "namespace", "entry_id"),)

    entry_id: Mapped[str] = mapped_column(String(26), primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    namespace: Mapped[str] = mapped_column(String(NAME_LENGTH), default="")
    by: Mapped[str] = mapped_column(String(NAME_LENGTH))
    operation: Mapped[str] = mapped_column(String(NAME_LENGTH))
    """The operation's id in the OpenAPI document."""
    path: Mapped[str] = mapped_column(Text)
    status: Mapped[int] = mapped_column(Integer)
    code: Mapped[str] = mapped_column(String(16), default="")


class Repeated(Base):
    """The response to a request that had an `Idempotency-Key`, for when it is sent again."""

    __tablename__ = "repeated"

    key: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    by: Mapped[str] = mapped_column(String(NAME_LENGTH), primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary(32))
    """Of method, path and body: the same key with another request is refused."""
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    status: Mapped[int | None] = mapped_column(Integer)
    """None while the request is being answered."""
    headers: Mapped[str] = mapped_column(Text, default="")
    """Of the response, JSON."""
    body: Mapped[str] = mapped_column(Text, default="")
