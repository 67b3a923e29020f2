"""The parts of a statement's session that decide how its text is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """The session of one statement, as in the log's QUERY event, and the make of the server.

    Attributes:
        database: Its default database; empty when it had none.
        is_mariadb: Whether the server is MariaDB.
        has_ansi_quotes: sql_mode ANSI_QUOTES: double quotes enclose names.
        has_backslash_escapes: No NO_BACKSLASH_ESCAPES: a backslash in a string escapes.
        real_is_float: sql_mode REAL_AS_FLOAT: REAL is FLOAT instead of DOUBLE.
        has_other_grammar: sql_mode ORACLE or MSSQL of MariaDB, under which words mean other types.
        has_explicit_timestamps: `explicit_defaults_for_timestamp`; on by default in MySQL 8 and MariaDB 10.10. When it
            is off, a TIMESTAMP is NOT NULL unless it says NULL, and gets a default by itself. No QUERY event of MySQL
            has it.
        server_charset: Default character set of a database that names none (`collation_server`); empty when not known.
        time_zone: The session's time zone, `+02:00` or a name, in which the default of a TIMESTAMP is written; empty or
            `SYSTEM` when not known.
    """

    database: str = ""
    is_mariadb: bool = False
    has_ansi_quotes: bool = False
    has_backslash_escapes: bool = True
    real_is_float: bool = False
    has_other_grammar: bool = False
    has_explicit_timestamps: bool = True
    server_charset: str = ""
    time_zone: str = ""
