"""The rights of an account, read from SHOW GRANTS with the active roles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replicator_sdk.schema import TableId
from replicator_source_mysql.connect.connection import execute, server_of

if TYPE_CHECKING:
    import pymysql

_LINE = re.compile(r"^(GRANT|REVOKE) (.+?) ON (?:TABLE )?(\S.*?) (?:TO|FROM) ", re.DOTALL)
_NAME = r"(\*|`(?:[^`]|``)*`|[^`.\s]+)"
_SCOPE = re.compile(rf"^{_NAME}\.{_NAME}$")
_COMMA = re.compile(r",\s*(?![^(]*\))")
_WILD = re.compile(r"\\(.)|(%)|(_)|(.)", re.DOTALL)
_ALL = frozenset({"ALL", "ALL PRIVILEGES"})


@dataclass(frozen=True, slots=True)
class Grant:
    """One line of SHOW GRANTS.

    Attributes:
        privileges: In capitals; those on some columns only are left out.
        database: A pattern with `%` and `_`; `*` for all.
        table: A name; `*` for all.
        is_taken: Whether the line takes the privileges away (MySQL's partial revokes).
        partly: Those on some columns only.
    """

    privileges: frozenset[str]
    database: str
    table: str
    is_taken: bool = False
    partly: frozenset[str] = frozenset()

    def covers(self, privilege: str, table: TableId | None) -> bool:
        """Whether the line says something of `privilege` on `table`, or on the whole server when None."""
        if privilege not in self.privileges and not self.privileges & _ALL:
            return False
        if self.database == "*":
            return True
        if table is None or not _matches(self.database, table.database):
            return False
        return self.table in {"*", table.table}


@dataclass(frozen=True, slots=True)
class Grants:
    """All that an account was granted."""

    account: str
    lines: tuple[Grant, ...]

    def has(self, privilege: str, table: TableId | None = None) -> bool:
        """Whether the account has `privilege` on all columns of `table`, or on the whole server when None."""
        found = [line for line in self.lines if line.covers(privilege, table)]
        return any(not line.is_taken for line in found) and not any(line.is_taken for line in found)

    def is_partial(self, table: TableId) -> bool:
        """Whether the account may read some columns of `table` only; the others it cannot even see."""
        named = (line for line in self.lines if (line.database, line.table) == (table.database, table.table))
        return any("SELECT" in line.partly for line in named) and not self.has("SELECT", table)


def read_grants(connection: pymysql.Connection[Any]) -> Grants:
    """The grants of the account of `connection`."""
    user = str(execute(connection, "SELECT CURRENT_USER()")[0][0])
    name, _, host = user.rpartition("@")
    account = f"{_quote(name)}@{_quote(host)}"
    query = "SHOW GRANTS"
    if not server_of(connection).is_mariadb:
        roles = str(execute(connection, "SELECT CURRENT_ROLE()")[0][0])
        query = "SHOW GRANTS FOR CURRENT_USER()" + (f" USING {roles}" if roles not in {"NONE", "None"} else "")
    lines = (parse_grant(str(row[0])) for row in execute(connection, query))
    return Grants(account, tuple(line for line in lines if line is not None))


def parse_grant(line: str) -> Grant | None:
    """A line of SHOW GRANTS; None for roles, proxies and rights on routines."""
    found = _LINE.match(line)
    scope = _SCOPE.match(found[3]) if found else None
    if found is None or scope is None:
        return None
    parts = [part.strip() for part in _COMMA.split(found[2])]
    whole = frozenset(part.upper() for part in parts if "(" not in part)
    partly = frozenset(part.partition("(")[0].strip().upper() for part in parts if "(" in part)
    return Grant(whole, _unquote(scope[1]), _unquote(scope[2]), found[1] == "REVOKE", partly)


def _matches(pattern: str, database: str) -> bool:
    parts = (
        re.escape(escaped or plain) if escaped or plain else ".*" if many else "."
        for escaped, many, _, plain in _WILD.findall(pattern)
    )
    return re.fullmatch("".join(parts), database, re.DOTALL) is not None


def _unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
