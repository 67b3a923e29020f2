"""Edits of `tables` and `columns` from a real PostgreSQL into Delta, by real processes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from tests.end_to_end.comparison import assert_equal_copies, delta_rows
from tests.end_to_end.replicator import Replicator, postgres_source
from tests.services.postgres.server import PostgresDatabase

_BOTH = (("public", "people"), ("public", "orders"))


def columns_of(table: Path) -> set[str]:
    """The columns of a Delta table's current version, without the replicator's own."""
    return {field.name for field in DeltaTable(str(table)).schema().fields if not field.name.startswith("_")}


@pytest.mark.timeout(900)
def test_the_copy_follows_tables_and_columns_that_are_removed_and_added_again(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """A narrowed column is in no file of the current version; what happened while a table was out is not missed."""
    settings: dict[str, Any] = {"edits": "apply"}
    replicator = Replicator(tmp_path, postgres_source(postgres_database), settings=settings)
    people = replicator.lake / "public" / "people"

    def select(entry: Mapping[str, Any] | None) -> None:
        settings["tables"] = [{"table": "orders"}, *([{"table": "people", **entry}] if entry is not None else [])]

    with postgres_database.connect() as connection:
        connection.execute("CREATE TABLE people (id bigint PRIMARY KEY, name text, card text)")
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, note text)")
        connection.execute("INSERT INTO people SELECT i, 'n' || i, 'secret' || i FROM generate_series(1, 1000) i")
        select({})
        replicator.until_current()
        assert_equal_copies(connection, replicator.lake, _BOTH)

        select({"columns": ["id", "name"]})
        connection.execute("INSERT INTO people SELECT i, 'n' || i, 'secret' || i FROM generate_series(1001, 1100) i")
        assert "table.copied_again" in replicator.until_current().messages
        assert columns_of(people) == {"id", "name"}
        assert len(list(delta_rows(people, ["id", "name"]))) == 1100
        assert files_of(people)
        assert not any("secret" in str(parquet.read_table(file).to_pydict()) for file in files_of(people))

        for number in (2000, 2001, 2002):
            connection.execute("INSERT INTO people VALUES (%s, 'later', 'secret')", [number])
            connection.execute(f"ALTER TABLE orders ADD COLUMN c{number} int")
            replicator.until_current()
            assert columns_of(people) == {"id", "name"}
        assert len(list(delta_rows(people, ["id", "name"]))) == 1103

        select(None)
        connection.execute("DELETE FROM people WHERE id < 10")
        connection.execute("ALTER TABLE people ADD COLUMN age int DEFAULT 7")
        replicator.until_current()
        connection.execute("INSERT INTO orders (id, note) VALUES (1, 'while people are out')")
        replicator.until_current()

        select({})
        connection.execute("UPDATE people SET name = 'new' WHERE id = 10")
        replicator.until_current()
        assert_equal_copies(connection, replicator.lake, _BOTH)

        shutil.rmtree(people)
        refused = replicator.run("--until-current")
        assert (refused.status, refused.error["code"]) == (3, "RPL-4101")
        select(None)
        replicator.until_current()
        select({})
        replicator.until_current()
        assert_equal_copies(connection, replicator.lake, _BOTH)

        replicator.lake_settings = {"path": str(tmp_path / "elsewhere")}
        refused = replicator.run("--until-current")
        assert (refused.status, refused.error["code"]) == (3, "RPL-4101")
        settings["tables"] = [{"table": "nothing_*"}]
        assert replicator.run("--until-current").error["code"] == "RPL-2002"
        select({})
        connection.execute("DELETE FROM people WHERE id = 11")
        for _ in range(2):
            replicator.until_current()
            assert_equal_copies(connection, tmp_path / "elsewhere", _BOTH)


def files_of(table: Path) -> list[str]:
    """The data files of a Delta table's current version."""
    return [uri.removeprefix("file://") for uri in DeltaTable(str(table)).file_uris()]
