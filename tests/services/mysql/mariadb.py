"""Private MariaDB servers, 10.11 and 11.8: started, used and stopped as the MySQL ones are."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tests.services.mysql.programs import MARIADB_10_11, Programs, Release
from tests.services.mysql.server import MysqlServer, root_statements, run_once

# What MariaDB's installation script feeds to the server, in its order; without the help texts.
_SYSTEM_TABLES = (
    "system_tables",
    "performance_tables",
    "system_tables_data",
    "maria_add_gis_sp_bootstrap",
    "sys_schema",
)


class MariadbServer(MysqlServer):
    """One private MariaDB server."""

    is_mariadb: ClassVar[bool] = True

    def __init__(self, release: Release = MARIADB_10_11, *, gtid: bool = True, **options: object) -> None:
        """Makes the data folder, as new; the server is not started yet. The arguments are those of `MysqlServer`."""
        super().__init__(release, gtid=gtid, **options)

    @staticmethod
    def _own_options(*, gtid: bool) -> dict[str, object]:
        return {"gtid_strict_mode": "ON" if gtid else "OFF", "binlog_format": "ROW"}

    @classmethod
    def _initialise(cls, found: Programs, data: Path) -> None:
        data.mkdir()
        scripts = [_script(found.share, name).read_text() for name in _SYSTEM_TABLES]
        only_one_root = (
            "DELETE FROM global_priv WHERE user = 'root' AND host <> 'localhost';"  # the others need no password
        )
        statements = [
            "CREATE DATABASE mysql;",
            "USE mysql;",
            *scripts,
            only_one_root,
            "FLUSH PRIVILEGES;",
            *root_statements(),
            "",
        ]
        run_once(found, data, "--bootstrap", "--innodb-buffer-pool-size=16M", statements="\n".join(statements))


def _script(share: Path, name: str) -> Path:
    """The SQL file of that name: MariaDB 10 prefixes most with `mysql_`, MariaDB 11 with `mariadb_`."""
    return next(path for prefix in ("", "mysql_", "mariadb_") if (path := share / f"{prefix}{name}.sql").exists())
