"""`snapshot.from`, real servers into Delta: a first start at an earlier position has the changes after it, also after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.crash.kills import killed
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source, postgres_source
from tests.plugins.sources.postgres.later_slot import publish_and_make_slot
from tests.services.mysql.server import MysqlDatabase
from tests.services.postgres.server import PostgresDatabase

POINT = "engine.start.planned"


def begins_at(tmp_path: Path, database: MysqlDatabase, start: dict[str, str]) -> Replicator:
    settings = {
        "snapshot": {"mode": "never", "from": start},
        "tables": [{"database": database.name, "table": table} for table in ("item", "note", "fresh")],
    }
    return Replicator(tmp_path, mysql_source(database.server), settings=settings)


def test_a_start_at_gtids_that_is_killed_begins_there_again(mysql_and_mariadb: MysqlDatabase, tmp_path: Path) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE item (id int PRIMARY KEY, name varchar(20))")
    db.execute("CREATE TABLE note (id int, name varchar(20))")
    for table in ("item", "note"):
        db.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 'row {n}')" for n in range(9)))
    db.execute("ALTER TABLE item ADD COLUMN before_it int DEFAULT 5")
    position = "gtid_binlog_pos" if db.server.is_mariadb else "gtid_executed"
    start = str(db.query(f"SELECT @@GLOBAL.{position}")[0][0]).replace("\n", "")
    db.execute("UPDATE item SET name = 'changed' WHERE id = 3")
    db.execute("DELETE FROM item WHERE id = 4")
    db.execute("INSERT INTO note VALUES (100, 'new')")
    db.execute("ALTER TABLE item ADD COLUMN late int, RENAME COLUMN before_it TO earlier")
    db.execute("INSERT INTO item VALUES (100, 'new', 6, 7)")
    db.execute("CREATE TABLE fresh (id int PRIMARY KEY, name varchar(20))")
    db.execute("INSERT INTO fresh VALUES (1, 'one')")

    wrong = begins_at(tmp_path / "wrong", db, {"offset": "no position"})
    refused = wrong.run("--until-current")
    assert (refused.status, refused.error["code"]) == (3, "RPL-3815"), refused.messages
    assert not list(wrong.state.rglob("offset.*"))

    replicator = begins_at(tmp_path, db, {"offset": start})
    killed(replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{POINT}=kill"), POINT)
    items: list[tuple[Any, ...]] = [(3, "changed", 5, None), (100, "new", 6, 7)]
    for number in range(3):
        db.execute(f"ALTER TABLE note ADD COLUMN c{number} int")
        db.execute(f"INSERT INTO item VALUES ({200 + number}, 'later', {number}, NULL)")
        items.append((200 + number, "later", number, None))
        replicator.until_current()
        folder = replicator.lake / db.name
        assert sorted(delta_rows(folder / "item", ["id", "name", "earlier", "late"])) == items
        assert list(delta_rows(folder / "note", ["id", "name", f"c{number}"])) == [(100, "new", None)]
        assert list(delta_rows(folder / "fresh", ["id", "name"])) == [(1, "one")]


def test_a_start_in_a_slot_of_the_administrator_that_is_killed_begins_there_again(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    db, slot = postgres_database, f"{postgres_database.name}_later"
    for table, key in (("item", " PRIMARY KEY"), ("note", "")):
        db.execute(f"CREATE TABLE {table} (id int{key}, name text)")
        db.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        db.execute(f"INSERT INTO {table} VALUES (3, 'three'), (4, 'four')")
    publish_and_make_slot(db, "later", "FOR TABLE item, note", slot)
    db.execute("ALTER TABLE item ADD COLUMN before_it int DEFAULT 5")
    db.execute("INSERT INTO item VALUES (9, 'before', 1)")
    start = str(db.execute("SELECT pg_current_wal_lsn()")[0][0])
    db.execute("UPDATE item SET name = 'changed' WHERE id = 3")
    db.execute("DELETE FROM item WHERE id = 4")
    db.execute("INSERT INTO note VALUES (100, 'new')")
    db.execute("ALTER TABLE item ADD COLUMN late int")
    db.execute("ALTER TABLE item RENAME COLUMN before_it TO earlier")
    db.execute("INSERT INTO item VALUES (100, 'new', 6, 7)")
    settings = {"snapshot": {"mode": "never", "from": {"offset": start}}}
    source = postgres_source(db, slot=slot, publication="later")
    replicator = Replicator(tmp_path, source, settings=settings)
    killed(replicator.start("--until-current", REPLICATOR_FAILPOINTS=f"{POINT}=kill"), POINT)
    items: list[tuple[Any, ...]] = [(3, "changed", 5, None), (100, "new", 6, 7)]
    for number in range(3):
        db.execute(f"ALTER TABLE note ADD COLUMN c{number} int")
        db.execute(f"INSERT INTO item VALUES ({200 + number}, 'later', {number}, NULL)")
        db.execute(f"INSERT INTO note (id) VALUES ({number})")
        items.append((200 + number, "later", number, None))
        replicator.until_current()
        folder = replicator.lake / "public"
        assert sorted(delta_rows(folder / "item", ["id", "name", "earlier", "late"])) == items
        notes = [(n, None, None) for n in range(number + 1)] + [(100, "new", None)]
        assert sorted(delta_rows(folder / "note", ["id", "name", f"c{number}"])) == notes
