"""A snapshot follows a condition, in chunks of a key and of a whole table, and says whether updates may lack values."""

from __future__ import annotations

import pytest

from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError
from replicator_source_mysql.snapshots.snapshot import MySqlSnapshotReader
from tests.plugins.sources.mysql.snapshot_reading import end_of_log, endpoint_of, rows_of, schema_of
from tests.services.mysql.server import MysqlDatabase


def reader_with(db: MysqlDatabase, condition: str) -> MySqlSnapshotReader:
    endpoint = endpoint_of(db, chunk_rows=1000)
    return MySqlSnapshotReader(endpoint, end_of_log, conditions={TableId(db.name, "t"): condition})


@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""])
def test_only_rows_of_the_condition_are_read(key: str, mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute(f"CREATE TABLE t (id int NOT NULL, v varchar(10){key})")
    for start in range(0, 4000, 1000):
        db.execute("INSERT INTO t VALUES " + ", ".join(f"({n}, 'v')" for n in range(start, start + 1000)))
    with reader_with(db, "id % 10 = 3 OR id = 1").open(schema_of(db)) as snapshot:
        assert (len(snapshot.chunks) > 1) == bool(key)
        assert sorted(row["id"] for row in rows_of(snapshot)) == sorted({1, *range(3, 4000, 10)})
        assert snapshot.partial_updates == ""


@pytest.mark.parametrize("condition", ["nmae = 'x'", "id = = 1", "no_function(id)", "count(*) > 1"])
def test_a_condition_that_the_server_refuses_is_the_users(condition: str, mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with pytest.raises(NeedsUserError) as refused:
        reader_with(db, condition).open(schema_of(db))
    assert (refused.value.code, refused.value.table) == ("RPL-3826", str(TableId(db.name, "t")))
