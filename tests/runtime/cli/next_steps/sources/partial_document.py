"""A table of PostgreSQL whose copy leaves a row out, and whose log then lacks values of that row."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from replicator_sdk import TableId
from tests.end_to_end.replicator import postgres_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.postgres.server import PostgresDatabase


class PartialDocument:
    """The table is copied without the row 1.

    Args:
        shop: Its pipeline is made to read the database.
        database: Gets the table.
    """

    def __init__(self, shop: OperatorShop, database: PostgresDatabase) -> None:
        self._shop, self._database = shop, database
        self.table = TableId(database.name, "document", "public")
        shop.read(*postgres_source(database))
        shop.document["tables"] = [{"table": "document", "where": "id > 1"}]
        database.execute("CREATE TABLE document (id int PRIMARY KEY, name text, body text)")
        database.execute("ALTER TABLE document ALTER body SET STORAGE EXTERNAL")
        self.log_whole_rows()
        database.execute("INSERT INTO document SELECT n, 'a', repeat('x', 9000) FROM generate_series(1, 3) n")
        shop.until_current()

    def log_whole_rows(self) -> None:
        """As the error advises."""
        self._database.execute("ALTER TABLE document REPLICA IDENTITY FULL")

    def lack_values(self) -> None:
        """An update of the row that was left out comes without its large value."""
        self._database.execute("ALTER TABLE document REPLICA IDENTITY DEFAULT")
        self._database.execute("UPDATE document SET name = 'b' WHERE id = 1")

    def three_runs(self, rows_of: Callable[..., Iterable[tuple[Any, ...]]]) -> None:
        """After each, the target has the rows of the condition and those that changed; rows and columns change between.

        Args:
            rows_of: The rows of the target's table, given the names of its columns.
        """
        names, left_out = ["id", "name", "body"], "WHERE id > 1"
        for number in range(3):
            self._shop.until_current()
            wanted = self._database.execute(f"SELECT {', '.join(names)} FROM document {left_out}")
            assert Counter(rows_of(*names)) == Counter(map(tuple, wanted))
            self._database.execute(f"UPDATE document SET name = 'c{number}' WHERE id IN (1, 3)")
            self._database.execute(f"INSERT INTO document VALUES ({10 + number}, 'new', 'short')")
            self._database.execute(f"DELETE FROM document WHERE id = {9 + number} OR id = 2")
            self._database.execute(f"ALTER TABLE document ADD COLUMN more_{number} int DEFAULT {number}")
            names.append(f"more_{number}")
            left_out = ""
