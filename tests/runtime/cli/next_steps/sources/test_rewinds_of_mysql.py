"""A rewind to where MySQL's schema history does not reach is refused when it is planned, and what the error advises can be done."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from tests.end_to_end.comparison import table_rows
from tests.end_to_end.mysql.test_failover import catch_up, promote, purge, replicate
from tests.end_to_end.replicator import mysql_source
from tests.follows import follows
from tests.runtime.cli.next_steps.test_rewinds import listed
from tests.services.mysql import client

if TYPE_CHECKING:
    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.mysql.fixtures import PrivateMysql
    from tests.services.mysql.server import MysqlDatabase


def assert_equal(shop: OperatorShop, database: MysqlDatabase) -> None:
    copy = DeltaTable(str(shop.lake / database.name / "item"))
    names = [name for (name,) in client.rows(database, _COLUMNS)]
    rows = client.rows(database, f"SELECT {', '.join(names)} FROM item")
    assert Counter(table_rows(copy, names)) == Counter(rows)


_COLUMNS = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = database() AND table_name = 'item'"
    " ORDER BY ordinal_position"
)


@follows("RPL-1286")
def test_an_offset_from_before_a_heal_at_a_replica_is_refused_also_where_the_log_is_there(
    lake_shop: OperatorShop, mysql_server: PrivateMysql
) -> None:
    """The replica had purged what was not replicated; the primary, to which the pipeline comes back, has all of its log."""
    shop, file, primary, replica = lake_shop, lake_shop.file, mysql_server(), mysql_server()
    replicate(primary, replica)
    with primary.database() as database:
        shop.document["tables"] = [{"database": database.name, "table": "item"}]
        shop.read(*mysql_source(primary))
        database.execute("CREATE TABLE item (id int PRIMARY KEY, name varchar(20))")
        database.execute("INSERT INTO item VALUES (1, 'one'), (2, 'two')")
        shop.until_current()
        database.execute("UPDATE item SET name = 'changed' WHERE id = 1")
        shop.until_current()
        before_it = listed(shop.done("offsets", "list", file).stdout)
        database.execute("INSERT INTO item VALUES (3, 'in the gap')")
        database.execute("DELETE FROM item WHERE id = 2")
        catch_up(primary, replica)
        promote(replica)
        replica.execute("FLUSH BINARY LOGS")
        purge(replica)
        shop.read(*mysql_source(replica))
        shop.refused("RPL-3782", "run", file, "--until-current")
        shop.done("heal", file, "--yes")
        shop.until_current()
        shop.read(*mysql_source(primary))
        shop.until_current()
        tried = [shop.refused("RPL-1286", "rewind", file, "--offset", older, "--yes") for older in before_it]
        assert all("nothing was changed" in ended.stderr for ended in tried)
        newest, *_ = listed(shop.follow(tried[0], "RPL-1286", "offsets list").stdout)
        assert_equal(shop, database)
        database.execute("ALTER TABLE item ADD COLUMN more int")
        database.execute("INSERT INTO item VALUES (4, 'four', 4)")
        shop.until_current()
        shop.done("rewind", file, "--offset", newest, "--yes")
        for number in range(3):
            shop.until_current()
            assert_equal(shop, database)
            database.execute(f"ALTER TABLE item ADD COLUMN later_{number} int")
            database.execute(f"UPDATE item SET later_{number} = {number}")
