"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    _create_documents()
    _create_processes()
    _create_access()


def _create_documents() -> None:
    op.create_table(
        "drafts",
        *(_name("namespace"), sa.Column("generation", sa.Integer, nullable=False), _name("name")),
        *(_time("created"), _time("updated"), _long("label"), _long("config"), _number("version")),
        sa.PrimaryKeyConstraint("namespace", "generation", "name"),
    )
    op.create_table(
        "connections",
        *(_name("namespace"), _name("name"), _time("created"), _time("updated"), _long("plugin"), _number("version")),
        sa.PrimaryKeyConstraint("namespace", "name"),
    )
    op.create_table(
        "pipelines",
        *(_name("namespace"), _name("name"), _time("created"), _time("updated"), _long("config"), _number("version")),
        *(_word("wanted"), _long("deletion")),
        sa.PrimaryKeyConstraint("namespace", "name"),
    )


def _create_processes() -> None:
    op.create_table(
        "instances",
        *(_ulid("instance_id"), _name("namespace"), _name("name")),
        sa.Column("launcher", sa.String(32), nullable=False),
        *(_long("handle"), _word("command"), _number("config_version"), _time("started")),
        *(_time("ended", nullable=True), _number("exit_code", nullable=True), _number("restarts")),
        *(_time("dismissed", nullable=True), _long("error")),
        sa.PrimaryKeyConstraint("instance_id"),
    )
    op.create_index("instances_of_pipeline", "instances", ["namespace", "name", "instance_id"])
    op.create_table(
        "supervisors",
        sa.Column("supervisor_id", sa.Integer, autoincrement=False, nullable=False),
        *(_ulid("holder"), _name("host"), _long("work_folder"), _time("renewed")),
        sa.PrimaryKeyConstraint("supervisor_id"),
    )
    op.create_table(
        "jobs",
        *(_ulid("job_id"), _name("namespace"), _name("name"), _long("command"), _name("by"), _word("state")),
        *(_time("started"), _time("ended", nullable=True), _number("exit_code", nullable=True), _long("output")),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("jobs_of_pipeline", "jobs", ["namespace", "name", "job_id"])
    op.create_index("jobs_by_state", "jobs", ["state"])


def _create_access() -> None:
    op.create_table(
        "tokens",
        *(_ulid("token_id"), _digest("digest"), _name("label"), _word("role"), _name("namespace"), _time("created")),
        *(_time("expires", nullable=True), _time("revoked", nullable=True)),
        sa.PrimaryKeyConstraint("token_id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_table(
        "sessions",
        *(_digest("digest"), _ulid("token_id"), _time("created"), _time("expires")),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "audit",
        *(_ulid("entry_id"), _time("at"), _name("namespace"), _name("by"), _name("operation"), _long("path")),
        *(_number("status"), _word("code")),
        sa.PrimaryKeyConstraint("entry_id"),
    )
    op.create_index("audit_of_namespace", "audit", ["namespace", "entry_id"])
    op.create_table(
        "repeated",
        *(_name("key"), _name("by"), _digest("digest"), _time("at"), _number("status", nullable=True)),
        *(_long("headers"), _long("body")),
        sa.PrimaryKeyConstraint("key", "by"),
    )


def _name(column: str) -> sa.Column[Any]:
    return sa.Column(column, sa.String(255), nullable=False)


def _word(column: str) -> sa.Column[Any]:
    return sa.Column(column, sa.String(16), nullable=False)


def _ulid(column: str) -> sa.Column[Any]:
    return sa.Column(column, sa.String(26), nullable=False)


def _long(column: str) -> sa.Column[Any]:
    return sa.Column(column, sa.Text, nullable=False)


def _number(column: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(column, sa.Integer, nullable=nullable)


def _time(column: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(column, sa.DateTime(timezone=True), nullable=nullable)


def _digest(column: str) -> sa.Column[Any]:
    return sa.Column(column, sa.LargeBinary(32), nullable=False)
