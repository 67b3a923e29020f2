"""A few tables on MySQL or MariaDB and the replicator that copies them into the target without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from replicator_sdk.errors import ReplicatorError
from tests.end_to_end.mysql.database.comparison import assert_equal_copies, differs, in_file_target
from tests.end_to_end.replicator import Ended, Replicator, mysql_source
from tests.services.mysql.client import Server
from tests.services.mysql.server import MysqlDatabase

TABLES = ("item", "note")
_ERRORS = Path(__file__).parents[4] / "docs/errors.md"


@dataclass(frozen=True)
class MysqlPipeline:
    """A table `item` with a key and a table `note` without one, in which a change applied twice shows."""

    database: MysqlDatabase
    replicator: Replicator
    tables: Sequence[str] = TABLES

    def create(self) -> None:
        """Create the tables, with some rows."""
        self.execute(
            "CREATE TABLE item (id int PRIMARY KEY, name varchar(40)) ENGINE InnoDB",
            "CREATE TABLE note (text varchar(40))",
        )
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.executemany("INSERT INTO item VALUES (%s, %s)", [(i, f"item {i}") for i in range(1, 101)])
            cursor.executemany("INSERT INTO note VALUES (%s)", [(f"note {i % 7}",) for i in range(50)])

    def execute(self, *statements: str) -> None:
        """Run statements in one session, each a transaction of its own unless they say otherwise."""
        with self.database.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def change(self) -> None:
        """Some changes of both tables; may be repeated."""
        self.execute(
            "UPDATE item SET name = concat('!', left(name, 30)) WHERE id % 3 = 0",
            "INSERT INTO item (id, name) SELECT max(id) + 1, 'new' FROM item",
            "DELETE FROM item WHERE id = (SELECT * FROM (SELECT min(id) FROM item) AS least)",
            "INSERT INTO note (text) VALUES ('twice'), ('twice')",
            "DELETE FROM note WHERE text = 'note 3' LIMIT 1",
        )

    def differences(self, database: MysqlDatabase | None = None) -> str:
        """How source and copy differ now; empty when they do not."""
        database = database or self.database
        return differs(database, in_file_target(self.replicator.folder / "target", database), self.tables)

    def assert_equal(self, database: MysqlDatabase | None = None) -> None:
        """Source and copy are equal now; the source may be another server that has the database."""
        database = database or self.database
        assert_equal_copies(database, in_file_target(self.replicator.folder / "target", database), self.tables)

    def assert_nothing_lost(self) -> None:
        """A run ends equal."""
        self.replicator.until_current()
        self.assert_equal()

    def fails(
        self, kind: type[ReplicatorError], says: str, *, secret: str = "correct horse", seconds: float = 180
    ) -> Mapping[str, Any]:
        """A run ends with an error of this kind; returns it."""
        return assert_fails(self.replicator.run("--until-current", seconds=seconds), kind, says, secret=secret)

    def at(self, server: Server, **properties: Any) -> MysqlPipeline:
        """The same replicator, reading from another server or with other settings of the source."""
        source = mysql_source(server, **properties)
        return replace(self, replicator=replace(self.replicator, source=source))

    def with_source(self, **properties: Any) -> MysqlPipeline:
        """The same replicator with other settings of the source."""
        return self.at(self.database, **properties)

    def with_settings(self, **settings: Any) -> MysqlPipeline:
        """The same replicator with other keys of the pipeline JSON."""
        replicator = replace(self.replicator, settings={**self.replicator.settings, **settings})
        return replace(self, replicator=replicator)


def make_mysql_pipeline(
    database: MysqlDatabase, folder: Path, package: str, tables: Sequence[str] = TABLES
) -> MysqlPipeline:
    """A pipeline whose tables are not created yet; `package` is the PYTHONPATH with that target."""
    replicator = Replicator(
        folder,
        mysql_source(database),
        ("file", {"path": str(folder / "target")}),
        {
            "tables": [{"database": database.name, "table": table} for table in tables],
            "retries": {"maxDurationSeconds": 4, "delaySeconds": 0.5},
            "batch": {"maxIntervalSeconds": 0.1},
            "edits": "apply",
        },
        environment={"PYTHONPATH": package},
    )
    return MysqlPipeline(database, replicator, tables)


def assert_fails(
    ended: Ended, kind: type[ReplicatorError], says: str, *, secret: str = "correct horse"
) -> Mapping[str, Any]:
    """One line, a documented code, a next step, the exit code of its class, no traceback and no secret."""
    assert ended.status == kind.exit_code, ended.messages
    assert ended.error, ended.messages
    error: Mapping[str, Any] = ended.error
    assert re.fullmatch(r"RPL-\d{4}", error["code"])
    assert f"[{error['code']}]" in _ERRORS.read_text(), f"{error['code']} is not documented"
    assert says in error["message"], error
    assert "\n" not in error["message"]
    assert len(error["hint"]) > 10
    assert "Traceback" not in ended.messages
    assert secret not in ended.messages
    return error
