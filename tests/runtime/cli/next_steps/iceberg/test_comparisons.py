"""Tables in Iceberg are compared, repaired and taken back by the commands, and what their errors advise is done as it is printed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.follows import follows
from tests.plugins.targets.iceberg.others import expires
from tests.runtime.cli.next_steps.iceberg.iceberg_shop import adds_more, fill, of
from tests.runtime.cli.next_steps.test_rewinds import listed

if TYPE_CHECKING:
    from replicator_target_iceberg.jvm import Catalog
    from tests.runtime.cli.next_steps.iceberg.iceberg_shop import IcebergShop


def removes_all(table: Any, catalog: Catalog) -> None:
    """Rows are gone that the source has."""
    table.newDelete().deleteFromRowFilter(catalog.jvm[".expressions.Expressions"].alwaysTrue()).commit()


def doubles_all(table: Any, catalog: Catalog) -> None:
    """Each file is in the table again under another name, so that each key has two rows."""
    append, tasks = table.newFastAppend(), table.newScan().planFiles().iterator()
    while tasks.hasNext():
        file = tasks.next().file()
        path = Path(str(file.location()).removeprefix("file:"))
        copy = shutil.copy(path, path.with_name(f"again-{path.name}"))
        append.appendFile(catalog.jvm[".DataFiles"].builder(table.spec()).copy(file).withPath(str(copy)).build())
    append.commit()


@follows("RPL-3440", "RPL-3441", "RPL-6431")
def test_tables_are_compared_repaired_and_taken_back(iceberg_shop: IcebergShop) -> None:
    shop, file = iceberg_shop, iceberg_shop.file
    shop.document["stages"][0]["plugin"]["properties"]["keepChangesHours"] = 1
    fill(shop, "doubled", "gone", "wider")
    shop.until_current()
    shop.done("verify", file)
    shop.foreign(of("doubled"), doubles_all)
    shop.foreign(of("wider"), removes_all)
    shop.done("verify", file, "doubled", "wider", status=5)
    shop.done("verify", file, "doubled", "wider", "--repair", "--yes")
    shop.assert_equal("doubled", "wider")
    [then, *_] = listed(shop.done("offsets", "list", file).stdout)
    shop.sql("UPDATE doubled SET name = 'late'", "DELETE FROM customers WHERE id = 2")
    shop.until_current()
    shop.done("rewind", file, "--offset", then, "--yes")
    assert sorted(name for _, name in shop.rows_of(of("doubled"), "id", "name")) == ["a", "b", "c"]
    for place in range(3):
        more = f"ALTER TABLE customers ADD COLUMN more_{place} TEXT"
        shop.sql(f"INSERT INTO doubled VALUES ({place + 10}, 'x')", more)
        shop.until_current()
        shop.assert_equal("customers", "doubled")
    shop.foreign(of("doubled"), expires)
    refused = shop.refused("RPL-3441", "rewind", file, "--offset", then, "--yes")
    shop.follow(refused, "RPL-3441", "offsets list")
    shop.follow(refused, "RPL-3441", "table resync")
    shop.foreign(of("wider"), adds_more)
    altered = shop.refused("RPL-6431", "verify", file, "wider")
    shutil.rmtree(shop.place(of("gone")))
    missing = shop.refused("RPL-3440", "verify", file, "gone")
    shop.follow(altered, "RPL-6431", "table resync")
    shop.follow(missing, "RPL-3440", "table resync", "--in-place")
    shop.until_current()
    shop.assert_equal("customers", "doubled", "gone", "wider")
