"""A first start in a slot that the administrator has made has the columns of its position, or refuses the table."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from replicator_sdk import EventReaderDefinition, StartFrom, TableId, TableSchema
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_source_postgres import PostgresSource
from tests.plugins.sources.postgres.later_slot import publish_and_make_slot
from tests.plugins.sources.postgres.pump import source_of
from tests.services.postgres.server import PostgresDatabase


class Shop:
    """A database with a publication of all tables and a slot, in this order."""

    def __init__(self, database: PostgresDatabase, publication: str = "FOR ALL TABLES") -> None:
        self.database = database
        self.run(
            "CREATE TABLE item (id int PRIMARY KEY, name varchar(20), n int)", "CREATE TABLE note (id int PRIMARY KEY)"
        )
        self.slot = f"{database.name}_later"
        publish_and_make_slot(database, "p", publication, self.slot)
        self.source = source_of(database, slot=self.slot, publication="p")
        self.rows = 0

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(statement)

    def write(self) -> None:
        """A row, so that the log announces the table."""
        self.rows += 1
        self.run(f"INSERT INTO item (id) VALUES ({self.rows})")

    def here(self) -> str:
        return str(self.database.execute("SELECT pg_current_wal_insert_lsn()")[0][0])

    def described(self, *names: str) -> list[TableSchema]:
        with self.source.create_table_registry() as registry:
            return [registry.describe_table(TableId(self.database.name, name, "public")) for name in names or ("item",)]

    def begun(self, start: str, *names: str, narrowed: tuple[str, ...] = ()) -> dict[str, TableSchema]:
        """The tables as a first start has them."""
        offset = find(self.source, start)
        tables = self.described(*names)
        if narrowed:
            tables = [schema.select(narrowed) for schema in tables]
        definition = EventReaderDefinition({}, narrowed=frozenset(s.table for s in tables) if narrowed else frozenset())
        reader = self.source.create_reader(definition, TestSourceContext("later"), CollectingEmitter())
        try:
            return {table.table: schema for table, schema in reader.begin_at(offset, tables).items()}
        finally:
            reader.close()

    def refused(self, start: str, why: str) -> str:
        """The position that the refusal names."""
        with pytest.raises(NeedsUserError, match=f"RPL-3219.*{why}") as refused:
            self.begun(start)
        assert refused.value.table == "public.item"
        return refused.value.hint.partition('"offset": "')[2].partition('"')[0]


def find(source: PostgresSource, offset: str = "", moment: datetime | None = None) -> Any:
    return source.find_start(StartFrom(offset, moment), namespace="default", name="later")


@pytest.fixture
def shop(postgres_oldest_and_newest: PostgresDatabase) -> Iterator[Shop]:
    made = Shop(postgres_oldest_and_newest)
    yield made
    made.run(f"SELECT pg_drop_replication_slot('{made.slot}')")


def form(schema: TableSchema) -> list[tuple[str, str]]:
    return [(column.name, column.source_type) for column in schema.columns]


def test_columns_that_were_added_renamed_or_retyped_since_are_as_they_were(shop: Shop) -> None:
    shop.run("ALTER TABLE item ADD COLUMN early int", "INSERT INTO item VALUES (100, 'before', 1, 2)")
    start, there = shop.here(), form(shop.described()[0])
    shop.write()
    shop.run(
        "ALTER TABLE item RENAME COLUMN n TO m",
        "ALTER TABLE item ADD COLUMN n text",
        "ALTER TABLE item ALTER early TYPE bigint",
    )
    shop.write()
    assert form(shop.begun(start)["item"]) == there
    assert form(shop.begun(start, narrowed=("id", "m"))["item"]) == [("id", "integer"), ("n", "integer")]
    with pytest.raises(NeedsUserError, match=r"RPL-3219.*did not have all columns"):
        shop.begun(start, narrowed=("id", "n"))


@pytest.mark.parametrize("seed", range(2))
def test_random_histories(shop: Shop, seed: int) -> None:
    chance, names, places = random.Random(seed), ["name", "n"], []
    for number in range(8):
        place = chance.randrange(len(names))
        if chance.random() < 0.5:
            names.append(f"c{number}")
            shop.run(f"ALTER TABLE item ADD COLUMN c{number} {chance.choice(('int', 'text', 'numeric(5,2)'))}")
        elif chance.random() < 0.5 and len(names) > 1:
            first, second = chance.sample(range(len(names)), 2)
            shop.run(
                f"ALTER TABLE item RENAME COLUMN {names[first]} TO between",
                f"ALTER TABLE item RENAME COLUMN {names[second]} TO {names[first]}",
                f"ALTER TABLE item RENAME COLUMN between TO {names[second]}",
            )
        else:
            shop.run(f"ALTER TABLE item RENAME COLUMN {names[place]} TO r{number}")
            names[place] = f"r{number}"
        places.append((shop.here(), form(shop.described()[0])))
        shop.write()
    for start, columns in places:
        assert form(shop.begun(start)["item"]) == columns


def test_a_renamed_table_begins_where_it_has_its_name(shop: Shop) -> None:
    start = shop.here()
    shop.write()
    shop.run(
        "ALTER TABLE item RENAME TO former", "INSERT INTO former VALUES (100)", "ALTER TABLE former RENAME TO item"
    )
    shop.write()
    assert set(shop.begun(shop.refused(start, "another name"))) == {"item"}


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["ALTER TABLE item DROP COLUMN n", "ALTER TABLE item ADD COLUMN n int"], "a column was dropped"),
        (["ALTER TABLE item REPLICA IDENTITY FULL"], "another replica identity"),
        (
            ["DROP TABLE item", "CREATE TABLE item (id int PRIMARY KEY, name varchar(20), n int)"],
            "another table had its name",
        ),
    ],
)
def test_what_the_log_does_not_say_for_certain_is_refused(shop: Shop, statements: list[str], why: str) -> None:
    start = shop.here()
    shop.write()
    shop.run(*statements)
    shop.rows += 10
    shop.write()
    later = shop.refused(start, why)
    assert bool(later) == ("DROP COLUMN" not in statements[0])
    if later:
        assert form(shop.begun(later)["item"]) == form(shop.described()[0])
    assert set(shop.begun(start, "note")) == {"note"}


def test_a_table_that_was_published_after_the_slot_was_made_is_refused(postgres_database: PostgresDatabase) -> None:
    shop = Shop(postgres_database, "FOR TABLE note")
    start = shop.here()
    shop.write()
    shop.run("ALTER PUBLICATION p ADD TABLE item")
    shop.write()
    shop.refused(start, "may not have had it")
    assert set(shop.begun(start, "note")) == {"note"}
    shop.run(f"SELECT pg_drop_replication_slot('{shop.slot}')", "DROP PUBLICATION p")
    publish_and_make_slot(shop.database, "p", "FOR TABLE item", shop.slot)
    assert set(shop.begun(shop.here())) == {"item"}


def test_the_position_of_the_next_record_is_accepted_where_the_written_log_ends_before_it(shop: Shop) -> None:
    """After a switch to another file it is after the header of a page that is not written."""
    shop.run("SELECT pg_switch_wal()")
    while not shop.database.execute("SELECT pg_current_wal_lsn() < pg_current_wal_insert_lsn()")[0][0]:
        shop.run("SELECT pg_switch_wal()")  # the server has written a record of its own
    start = shop.here()
    assert str(find(shop.source, start)) == start
    assert set(shop.begun(start, "note")) == {"note"}


def test_what_is_no_position_of_the_slot_is_refused(shop: Shop) -> None:
    confirmed = str(
        shop.database.execute(f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{shop.slot}'")[
            0
        ][0]
    )
    assert str(find(shop.source, confirmed)) == confirmed
    for text, code in (("1200", "RPL-3215"), ("FFFFFF/0", "RPL-3216.*ends before")):
        with pytest.raises(NeedsUserError, match=code):
            find(shop.source, text)
    with pytest.raises(NeedsUserError, match=r"RPL-3216.*has not come"):
        find(shop.source, moment=datetime.now(UTC) + timedelta(days=1))
    for text, moment in (("0/1", None), ("", datetime(2001, 1, 1, tzinfo=UTC))):
        with pytest.raises(HistoryLostError, match="RPL-3218") as gone:
            find(shop.source, text, moment)
        assert f'"offset": "{confirmed}"' in gone.value.hint
    for settings in ({}, {"slot": "no_such_slot"}):
        with pytest.raises(NeedsUserError, match="RPL-3217"):
            find(source_of(shop.database, **settings), confirmed)
    other = f"{shop.database.name}_physical"
    shop.run(f"SELECT pg_create_physical_replication_slot('{other}')")
    with pytest.raises(NeedsUserError, match="RPL-3206"):
        find(source_of(shop.database, slot=other), confirmed)
    shop.run(f"SELECT pg_drop_replication_slot('{other}')")


def test_a_time_is_before_the_first_transaction_that_was_committed_then_or_later(shop: Shop) -> None:
    shop.write()
    moment = datetime.now(UTC)
    time.sleep(0.01)  # two commits within it have one time
    before = shop.here()
    shop.write()
    found = find(shop.source, moment=moment)
    assert not found < find(shop.source, before)
    assert found < find(shop.source, shop.here())
