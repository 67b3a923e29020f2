"""Findings about the server: its log, its capacity, its version, and the role's rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_source_postgres.config import PostgresConfig
from replicator_source_postgres.connection import Row, quote_identifier

if TYPE_CHECKING:
    import psycopg

_SETTINGS = """
SELECT pg_catalog.current_setting('wal_level'), pg_catalog.current_setting('server_version_num')::int4,
       pg_catalog.current_setting('max_replication_slots')::int4, pg_catalog.current_setting('max_wal_senders')::int4,
       (SELECT count(*) FROM pg_catalog.pg_replication_slots),
       (SELECT count(*) FROM pg_catalog.pg_stat_replication),
       (SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'),
       pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_encoding'),
       (SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) OR EXISTS (
         SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rds_replication' AND pg_catalog.pg_has_role(oid, 'MEMBER')),
       pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'), current_user::text
"""

_FIRST_MINOR_WITHOUT_LOST_TABLES = {13: 130021, 14: 140018, 15: 150013, 16: 160009, 17: 170005}
"""Before these, changes of a table added to a publication while a transaction writes to it could be missing from the log."""

_SLOTS_NEEDED = 3
"""The pipeline's own slot, and two snapshots at a time."""


@dataclass(frozen=True, slots=True)
class _Server:
    """The row of `_SETTINGS`, in its order."""

    wal_level: str
    version: int
    slots: int
    senders: int
    used_slots: int
    used_senders: int
    kept_megabytes: int | None
    is_standby: bool
    encoding: str
    may_replicate: bool
    may_create: bool
    role: str


def about_server(connection: psycopg.Connection[Row], config: PostgresConfig) -> list[Finding]:
    """All findings that do not concern a single table."""
    row = connection.execute(_SETTINGS).fetchone()
    assert row is not None
    server = _Server(*row)
    findings = [*_about_wal(server), *_about_capacity(server), *_about_version(server), *_about_rights(server, config)]
    if config.publication is not None and not server.may_create:
        query = "SELECT FROM pg_catalog.pg_publication WHERE pubname = %s"
        if connection.execute(query, [config.publication]).fetchone() is None:
            findings.append(_no_publication(server, config.publication))
    return findings


def _no_publication(server: _Server, publication: str) -> Finding:
    return Finding(
        "publication",
        Severity.ERROR,
        f"the publication {publication!r} does not exist, and the role {server.role} may not create it",
        "the pipeline cannot start",
        "let the owner of the tables create it, then add the tables as the next findings say",
        fix=f"CREATE PUBLICATION {quote_identifier(publication)} WITH (publish_via_partition_root = true);",
        code="RPL-3303",
    )


def _about_wal(server: _Server) -> list[Finding]:
    findings = []
    if server.wal_level != "logical":
        findings.append(
            Finding(
                "wal_level",
                Severity.ERROR,
                f"wal_level is {server.wal_level}",
                "the log holds no row changes; no slot can be created",
                "set it and restart the server",
                fix="ALTER SYSTEM SET wal_level = 'logical';",
            )
        )
    if server.is_standby:
        findings.append(
            Finding(
                "standby",
                Severity.ERROR,
                "the server is a standby",
                "publications and slots are created at the primary",
                "give the primary's host",
            )
        )
    if server.kept_megabytes is None or server.kept_megabytes < 0:
        findings.append(
            Finding(
                "max_slot_wal_keep_size",
                Severity.WARNING,
                "the WAL a slot may hold back is not limited",
                "while the pipeline does not run, WAL fills the source's disk",
                "set a limit the disk can hold; beyond it the slot is lost and a new snapshot is needed",
                fix="ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
            )
        )
    return findings


def _about_capacity(server: _Server) -> list[Finding]:
    findings = []
    for name, used, now in (
        ("max_replication_slots", server.used_slots, server.slots),
        ("max_wal_senders", server.used_senders, server.senders),
    ):
        free = now - used
        if free < _SLOTS_NEEDED:
            findings.append(
                Finding(
                    name,
                    Severity.ERROR if free < 1 else Severity.WARNING,
                    f"{free} of {name} = {now} are free",
                    f"the pipeline needs one for the log and one for each table read in a snapshot ({_SLOTS_NEEDED})",
                    "raise it and restart the server, or drop unused slots",
                    fix=f"ALTER SYSTEM SET {name} = {now + _SLOTS_NEEDED};",
                    code="RPL-3105",
                )
            )
    return findings


def _about_version(server: _Server) -> list[Finding]:
    findings = []
    major = server.version // 10000
    if not 13 <= major <= 18:
        findings.append(
            Finding(
                "version",
                Severity.WARNING if major > 18 else Severity.ERROR,
                f"the server is PostgreSQL {major}",
                "only 13 to 18 are tested",
                "upgrade the server, or this package",
            )
        )
    if server.version < _FIRST_MINOR_WITHOUT_LOST_TABLES.get(major, 0):
        findings.append(
            Finding(
                "minor_version",
                Severity.WARNING,
                f"PostgreSQL {major}.{server.version % 10000} has a bug in ALTER PUBLICATION … ADD TABLE under load",
                "changes of a table added while a transaction writes to it may be missing from the log",
                "upgrade to the newest minor version, or add tables while no transaction writes to them",
            )
        )
    if server.encoding == "SQL_ASCII":
        findings.append(
            Finding(
                "encoding",
                Severity.WARNING,
                "the database's encoding is SQL_ASCII: the encoding of its text is unknown",
                "text that is not UTF-8 stops its table",
                "convert the database to UTF8",
                code="RPL-3011",
            )
        )
    return findings


def _about_rights(server: _Server, config: PostgresConfig) -> list[Finding]:
    findings = []
    who = quote_identifier(server.role)
    if not server.may_replicate:
        findings.append(
            Finding(
                "replication_right",
                Severity.ERROR,
                f"the role {server.role} lacks REPLICATION",
                "it can neither create a slot nor read the log",
                "grant it (on RDS: GRANT rds_replication, on Cloud SQL: the same ALTER ROLE by cloudsqlsuperuser)",
                fix=f"ALTER ROLE {who} REPLICATION;",
                code="RPL-3103",
            )
        )
    if not server.may_create and config.publication is None:
        database = quote_identifier(config.database)
        findings.append(
            Finding(
                "publication_right",
                Severity.WARNING,
                f"the role {server.role} may not create a publication",
                "the pipeline cannot start unless the publication exists",
                "let the owner create it and name it in the pipeline, or grant CREATE on the database",
                fix=f"GRANT CREATE ON DATABASE {database} TO {who};",
                code="RPL-3303",
            )
        )
    return findings
