"""Whether a server can be replicated from: its binlog, how long it keeps it, and what the account may do."""

from __future__ import annotations

from replicator_sdk.discovery.assessment import Finding, Severity
from replicator_source_mysql.assessment.server_facts import ServerFacts

BINLOG_OFF, NOT_ROWS, NO_REPLICATION_GRANT = "RPL-3840", "RPL-3841", "RPL-3842"
NO_SERVER_ID, REPLICA_WITHOUT_LOG, SAME_SERVER_ID = "RPL-3848", "RPL-3849", "RPL-3850"

_DAY = 86_400


def server_findings(facts: ServerFacts, server_id: int | None = None) -> list[Finding]:
    """Everything about the server as a whole, the worst first."""
    found = [*_about_log(facts), *_about_rights(facts), *_about_identity(facts, server_id)]
    found += [*_about_retention(facts), *_about_rows(facts), *_about_filters(facts)]
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


def _about_log(facts: ServerFacts) -> list[Finding]:
    if not facts.is_on("log_bin"):
        return [
            Finding(
                "log_bin",
                Severity.ERROR,
                "the server writes no binlog",
                "there is nothing to replicate from",
                "start the server with a binlog (option file, then a restart); on RDS and Cloud SQL switch on automated backups",
                fix="[mysqld]\nlog_bin = binlog\nbinlog_format = ROW\nserver_id = 1",
                code=BINLOG_OFF,
            )
        ]
    if (form := facts.settings.get("binlog_format", "ROW").upper()) != "ROW":
        return [
            Finding(
                "binlog_format",
                Severity.ERROR,
                f"binlog_format is {form}",
                "statements, not rows, are in the log; which rows they changed is not known",
                "set it, and let all sessions reconnect",
                fix="SET GLOBAL binlog_format = 'ROW';",
                code=NOT_ROWS,
            )
        ]
    return []


def _about_rights(facts: ServerFacts) -> list[Finding]:
    reading = ("REPLICATION SLAVE", "REPLICATION REPLICA")
    new_names = facts.server.is_mariadb and facts.server.number >= (10, 5, 0)
    watching = ("BINLOG MONITOR", "REPLICATION CLIENT") if new_names else ("REPLICATION CLIENT",)
    found = []
    for names, impact in (
        (reading, "the server gives it no binlog"),
        (watching, "it cannot ask where the binlog ends"),
    ):
        if not any(facts.grants.has(name) for name in (*names, "SUPER")):
            found.append(
                Finding(
                    names[0].lower().replace(" ", "_"),
                    Severity.ERROR,
                    f"the account {facts.grants.account} lacks {names[0]}",
                    impact,
                    "grant it",
                    fix=f"GRANT {names[0]} ON *.* TO {facts.grants.account};",
                    code=NO_REPLICATION_GRANT,
                )
            )
    return found


def _about_identity(facts: ServerFacts, server_id: int | None) -> list[Finding]:
    found = []
    if facts.settings.get("server_id") == "0":
        found.append(
            Finding(
                "server_id",
                Severity.ERROR,
                "the server's server_id is 0",
                "a server without an id refuses to give its binlog",
                "give it one, and keep it in the option file",
                fix="SET GLOBAL server_id = 1;",
                code=NO_SERVER_ID,
            )
        )
    if server_id is not None and server_id in {*(facts.others or ()), int(facts.settings.get("server_id", 0))}:
        found.append(
            Finding(
                "server_id_in_use",
                Severity.ERROR,
                f"the server id {server_id} is in use at this server",
                "of two readers under one id the server closes the connection of one, again and again",
                "give the pipeline another `serverId`, or leave it out; if it is this pipeline's own run, nothing is wrong",
                code=SAME_SERVER_ID,
            )
        )
    logs_updates = facts.is_on("log_replica_updates") or facts.is_on("log_slave_updates")
    if facts.is_replica is not False and not logs_updates:
        found.append(
            Finding(
                "log_replica_updates",
                Severity.ERROR if facts.is_replica else Severity.WARNING,
                f"{'the server is a replica and' if facts.is_replica else 'if the server is a replica, it'} does not log"
                " what it replicates",
                "changes made at its primary are not in its binlog",
                "switch log_replica_updates (MariaDB: log_slave_updates) on in the option file and restart, or read from the primary",
                fix="[mysqld]\nlog_slave_updates = ON",
                code=REPLICA_WITHOUT_LOG,
            )
        )
    if not facts.server.is_mariadb and facts.settings.get("gtid_mode", "OFF").upper() != "ON":
        found.append(
            Finding(
                "gtid_mode",
                Severity.INFO,
                f"gtid_mode is {facts.settings.get('gtid_mode', 'OFF')}",
                "after a failover to another server the position in its binlog cannot be found, and every table has to be copied again",
                "switch it on step by step (OFF, OFF_PERMISSIVE, ON_PERMISSIVE, ON)",
                fix="SET GLOBAL enforce_gtid_consistency = ON; SET GLOBAL gtid_mode = OFF_PERMISSIVE;"
                " SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = ON;",
            )
        )
    return found


def _about_retention(facts: ServerFacts) -> list[Finding]:
    kept = facts.retention_seconds
    if kept is None or kept >= _DAY:
        return []
    on_rds = facts.rds_hours is not None
    fix = "SET PERSIST binlog_expire_logs_seconds = 604800;"
    if facts.server.is_mariadb:
        fix = "SET GLOBAL expire_logs_days = 7;"
    return [
        Finding(
            "binlog_retention",
            Severity.ERROR if kept < 3600 and on_rds else Severity.WARNING,
            f"the server keeps its binlog for {kept / 3600:g} hours",
            "a pipeline that is stopped for longer, or a snapshot that takes longer, has to copy every table again",
            "keep it for some days",
            fix="CALL mysql.rds_set_configuration('binlog retention hours', 168);" if on_rds else fix,
        )
    ]


def _about_rows(facts: ServerFacts) -> list[Finding]:
    found = []
    image = facts.settings.get("binlog_row_image", "FULL").upper()
    if not image.startswith("FULL"):
        found.append(
            Finding(
                "binlog_row_image",
                Severity.WARNING,
                f"binlog_row_image is {image}",
                "updates carry only what they changed; tables without a key cannot be replicated",
                "set FULL, if the larger log can be borne",
                fix="SET GLOBAL binlog_row_image = 'FULL';",
            )
        )
    if "PARTIAL_JSON" in facts.settings.get("binlog_row_value_options", "").upper():
        found.append(
            Finding(
                "binlog_row_value_options",
                Severity.INFO if image.startswith("FULL") else Severity.WARNING,
                "updates of JSON columns are logged as differences",
                "they are applied to the document before, which the log holds under binlog_row_image=FULL only",
                "set it to the empty string",
                fix="SET GLOBAL binlog_row_value_options = '';",
            )
        )
    if facts.settings.get("binlog_row_metadata", "").upper() in {"MINIMAL", "NO_LOG"}:
        found.append(
            Finding(
                "binlog_row_metadata",
                Severity.INFO,
                f"binlog_row_metadata is {facts.settings['binlog_row_metadata']}",
                "the log names no columns; names and types come from the replicator's own schema history",
                "nothing has to be done",
                fix="SET GLOBAL binlog_row_metadata = 'FULL';",
            )
        )
    compressed = [n for n in ("binlog_transaction_compression", "log_bin_compress") if facts.is_on(n)]
    found += [
        Finding(name, Severity.INFO, f"{name} is on", "compressed events are decoded", "nothing has to be done")
        for name in compressed
    ]
    return found


def _about_filters(facts: ServerFacts) -> list[Finding]:
    if not (facts.only_databases or facts.left_out):
        return []
    return [
        Finding(
            "binlog_filters",
            Severity.WARNING,
            f"binlog_do_db is {sorted(facts.only_databases)}, binlog_ignore_db is {sorted(facts.left_out)}",
            "changes of the other databases are not in the binlog; their tables are refused",
            "take the two options out of the option file and restart",
        )
    ]
