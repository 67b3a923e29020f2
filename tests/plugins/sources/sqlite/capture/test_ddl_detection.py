"""Whatever the source does while it is compared, the comparison ends, and the log never has two tables of one name."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replicator_sdk import TableId
from replicator_source_sqlite.capture import ddl_detection
from replicator_source_sqlite.capture.changelog import DDL, install
from replicator_source_sqlite.capture.ddl_detection import synchronise
from replicator_source_sqlite.capture.versions import Version, add_version, live_versions, refresh_versions
from replicator_source_sqlite.catalogue import DATABASE, describe
from replicator_source_sqlite.connection import connect, transaction

_NAMES = [f"t{number}" for number in range(6)]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with sqlite3.connect(tmp_path / "shop.db") as made:
        made.execute("PRAGMA journal_mode=WAL")
    made.close()
    with connect(tmp_path / "shop.db") as opened:
        install(opened)
        yield opened


def execute(database: sqlite3.Connection, *statements: str) -> None:
    """In one transaction."""
    with transaction(database, write=True):
        for statement in statements:
            database.execute(statement)


def capture(database: sqlite3.Connection, *names: str) -> None:
    """Those that are not captured yet."""
    with transaction(database, write=True):
        known = {version.schema.table for version in live_versions(database)}
        for table in (TableId(DATABASE, name) for name in names):
            if table not in known:
                add_version(database, describe(database, table))


def stored(database: sqlite3.Connection) -> dict[int, Version]:
    """All versions, by number."""
    found: dict[int, Version] = {}
    refresh_versions(database, found)
    return found


def logged(database: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """The schema changes: operation, the table's name before, and after."""
    of = {number: version.schema.table.table for number, version in stored(database).items()}
    found = []
    for number, text in database.execute(
        "SELECT version, c0 FROM _replicator_changes WHERE op = ? ORDER BY id", (DDL,)
    ):
        facts = json.loads(text)
        found.append((facts["operation"], of[facts["previous"]], of[number]))
    return found


@contextmanager
def before_each_write(what: Callable[[], None]) -> Iterator[None]:
    """Have the source do something before each transaction in which a schema change is logged."""

    @contextmanager
    def begun(database: sqlite3.Connection, *, write: bool = False) -> Iterator[None]:
        if write:
            what()
        with transaction(database, write=write):
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ddl_detection, "transaction", begun)
        yield


@pytest.mark.timeout(30)
def test_a_table_that_is_dropped_while_tables_are_compared_is_logged_before_another_takes_its_name(
    database: sqlite3.Connection,
) -> None:
    execute(database, "CREATE TABLE a (id INTEGER PRIMARY KEY)", "CREATE TABLE b (id INTEGER PRIMARY KEY)")
    capture(database, "a", "b")
    execute(database, "ALTER TABLE a ADD COLUMN x TEXT")
    statements = ["DROP TABLE b", "ALTER TABLE a RENAME TO b"]

    def meanwhile() -> None:
        while statements:
            execute(database, statements.pop(0))

    with before_each_write(meanwhile):
        synchronise(database, 0)
    assert logged(database) == [("DROP_TABLE", "b", "b"), ("RENAME_TABLE", "a", "b")]


class _Source:
    """Tables that are created, renamed, exchanged, rebuilt and dropped at random."""

    def __init__(self, database: sqlite3.Connection, chance: random.Random) -> None:
        self._database, self._chance = database, chance
        self.names: list[str] = []

    def step(self) -> None:
        names, chance = self.names, self._chance
        free = [name for name in _NAMES if name not in names]
        what = chance.choice(["create", "rename", "exchange", "drop", "replace", "rebuild", "widen", "write"])
        if what == "create" and free:
            names.append(chance.choice(free))
            self._execute(f"CREATE TABLE {names[-1]} (id INTEGER{chance.choice(['', ' PRIMARY KEY'])}, v TEXT)")
        elif what == "rename" and names and free:
            former = names.pop(chance.randrange(len(names)))
            names.append(chance.choice(free))
            self._execute(f"ALTER TABLE {former} RENAME TO {names[-1]}")
        elif what == "exchange" and len(names) > 2:
            some = chance.sample(names, chance.choice([2, 3]))
            away = [f"ALTER TABLE {name} RENAME TO m{rank}" for rank, name in enumerate(some)]
            self._execute(
                *away, *(f"ALTER TABLE m{rank} RENAME TO {to}" for rank, to in enumerate(some[1:] + some[:1]))
            )
        elif names:
            self._change(what, chance.choice(names))

    def _change(self, what: str, name: str) -> None:
        if what == "drop":
            self.names.remove(name)
            self._execute(f"DROP TABLE {name}")
        elif what == "replace":
            self._execute(f"DROP TABLE {name}", f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
        elif what == "rebuild":
            self._execute(
                f"CREATE TABLE other AS SELECT * FROM {name}",
                f"DROP TABLE {name}",
                f"ALTER TABLE other RENAME TO {name}",
            )
        elif what == "widen":
            self._execute(f"ALTER TABLE {name} ADD COLUMN x{self._chance.randrange(10**9)} TEXT")
        elif what == "write":
            self._execute(f"INSERT INTO {name} (id) SELECT coalesce(max(id), 0) + 1 FROM {name}")

    def _execute(self, *statements: str) -> None:
        execute(self._database, *statements)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(40))
def test_random_changes_beside_comparisons_leave_each_live_version_with_its_table_alone(
    seed: int, database: sqlite3.Connection
) -> None:
    chance = random.Random(seed)
    source = _Source(database, chance)
    execute(database, "CREATE TABLE first (id INTEGER PRIMARY KEY)")
    capture(database, "first")

    def meanwhile() -> None:
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            source.step()

    for _ in range(8):
        for _ in range(chance.randrange(6)):
            source.step()
        with before_each_write(meanwhile):
            synchronise(database, 0)
        synchronise(database, 0)
        _check(database)
        capture(database, *chance.sample(source.names, len(source.names) // 2))


def _check(database: sqlite3.Connection) -> None:
    placed = database.execute("SELECT DISTINCT substr(name, 13), tbl_name FROM sqlite_schema WHERE type = 'trigger'")
    live = {version.number: version.schema.table.table for version in live_versions(database)}
    assert {int(name.partition("_")[0]): table for name, table in placed} == live
    assert len(set(live.values())) == len(live)
    _check_log(database)


def _check_log(database: sqlite3.Connection) -> None:
    """No name has two tables after any schema change that is logged, but within one of several tables."""
    known = stored(database)
    rows = database.execute(
        "SELECT id, version, c0 FROM _replicator_changes WHERE op = ? ORDER BY id", (DDL,)
    ).fetchall()
    changes = [(number, version, json.loads(text)) for number, version, text in rows]
    captured = known.keys() - {version for _, version, facts in changes if facts["operation"] != "DROP_TABLE"}
    now: set[int] = set()
    for number, version, facts in changes:
        now |= {each for each in captured if known[each].since < number}
        captured -= now
        now.discard(facts["previous"])
        if facts["operation"] != "DROP_TABLE":
            now.add(version)
        names = [known[each].schema.table for each in now]
        assert facts.get("together") or len(set(names)) == len(names), (number, facts)
