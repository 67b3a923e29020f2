"""A reader begins at an earlier position with the columns of then, or refuses the table with a later position."""

from __future__ import annotations

import pytest

from replicator_sdk import EventReaderDefinition, StartFrom, TableId, TableSchema
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.contexts import CollectingEmitter, TestSourceContext
from replicator_source_mysql import MySqlSource
from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY
from tests.plugins.sources.mysql.pump import source_of
from tests.services.mysql.server import MysqlDatabase


def begun(source: MySqlSource, offset: str, *tables: TableId, context: TestSourceContext) -> dict[TableId, TableSchema]:
    """The tables as a first start at `offset` has them."""
    found = source.find_start(StartFrom(offset), namespace="default", name="later")
    reader = source.create_reader(EventReaderDefinition({}), context, CollectingEmitter())
    try:
        with source.create_table_registry() as registry:
            return dict(reader.begin_at(found, [registry.describe_table(table) for table in tables]))
    finally:
        reader.close()


def test_a_dropped_column_refuses_the_table_until_after_the_statement(mysql_and_mariadb: MysqlDatabase) -> None:
    shop, source = mysql_and_mariadb, source_of(mysql_and_mariadb)
    item, note = TableId(shop.name, "item"), TableId(shop.name, "note")
    for table in ("item", "note"):
        shop.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20), gone int)")
    start = str(source.latest_offset())
    shop.execute("INSERT INTO item VALUES (1, 'one', 1)")
    shop.execute("ALTER TABLE item DROP COLUMN gone")
    shop.execute("ALTER TABLE item ADD COLUMN late int, ADD COLUMN more varchar(5)")
    shop.execute("ALTER TABLE note RENAME COLUMN gone TO here, ADD UNIQUE u (name)")
    context = TestSourceContext("later")
    with pytest.raises(NeedsUserError, match="RPL-3818") as refused:
        begun(source, start, item, note, context=context)
    assert refused.value.table == str(item)
    assert HISTORY_KEY not in context.state
    later = refused.value.hint.partition('"offset": "')[2].partition('"')[0]
    found = begun(source, later, item, note, context=context)
    assert (found[item].names, found[note].names) == (("id", "name"), ("id", "name", "gone"))
    assert begun(source, start, note, context=context)[note].names == ("id", "name", "gone")
    now = begun(source, str(source.latest_offset()), item, note, context=context)
    assert (now[item].names, now[note].names) == (("id", "name", "late", "more"), ("id", "name", "here"))


def test_a_position_at_which_a_transaction_was_prepared_that_committed_later_is_refused(
    mysql_and_mariadb: MysqlDatabase,
) -> None:
    """Its rows are before the position, and its commit after it."""
    shop, source = mysql_and_mariadb, source_of(mysql_and_mariadb)
    item = TableId(shop.name, "item")
    shop.execute("CREATE TABLE item (id int PRIMARY KEY)")
    before = str(source.latest_offset())
    with shop.connect() as connection, connection.cursor() as cursor:
        for statement in ("XA START 'z'", "INSERT INTO item VALUES (1)", "XA END 'z'", "XA PREPARE 'z'"):
            cursor.execute(statement)
        between = str(source.latest_offset())
        shop.execute("CREATE TABLE meanwhile (id int PRIMARY KEY)")
        cursor.execute("XA COMMIT 'z'")
    with pytest.raises(NeedsUserError, match=r"RPL-3816.*prepared") as refused:
        begun(source, between, item, context=TestSourceContext("later"))
    later = refused.value.hint.partition(', or "')[2].partition('"')[0]
    for start in (before, later):
        assert set(begun(source, start, item, context=TestSourceContext("later"))) == {item}
