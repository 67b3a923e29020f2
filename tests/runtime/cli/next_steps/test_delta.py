"""What errors of tables in Delta that another program changed advise is done as it is printed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.follows import follows
from tests.runtime.cli.next_steps.test_rewinds import begin, listed
from tests.runtime.engine.test_run import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop


@follows("RPL-6403", "RPL-6407", "RPL-6408", "RPL-3414")
def test_tables_that_another_program_altered_or_deleted_are_copied_again(
    lake_shop: OperatorShop, spark: SparkSession
) -> None:
    shop, file = lake_shop, lake_shop.file
    shop.document["stages"][0]["plugin"]["properties"]["pollIntervalSeconds"] = 0.05
    shop.sql(
        "CREATE TABLE wider (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO wider VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE narrower (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO narrower VALUES (1, 'a'), (2, 'b')",
    )  # fmt: skip
    fill(shop)
    shop.until_current()
    place = shop.lake / "main"
    spark.sql(f"ALTER TABLE delta.`{place / 'wider'}` ADD COLUMN more STRING")
    spark.sql(f"ALTER TABLE delta.`{place / 'narrower'}` DROP COLUMN name")
    refused = {"RPL-6408": shop.refused("RPL-6408", "verify", file, "wider")}
    shutil.rmtree(place / "notes")
    refused["RPL-3414"] = shop.refused("RPL-3414", "verify", file, "notes")
    shop.sql("ALTER TABLE wider ADD COLUMN more TEXT", "ALTER TABLE narrower RENAME COLUMN name TO title")
    stopped = shop.replicator("run", file, "--until-current")
    for code in ("RPL-6403", "RPL-6407"):
        refused[code] = stopped
    for code, ended in refused.items():
        shop.follow(ended, code, "table resync")
    shop.sql("INSERT INTO wider VALUES (3, 'c', 'd')", "INSERT INTO narrower VALUES (3, 'c')")
    shop.until_current()
    shop.assert_equal("customers", "notes", "wider", "narrower")


@follows("RPL-3411")
def test_a_table_whose_earlier_files_are_gone_is_copied_again(lake_shop: OperatorShop) -> None:
    shop, file = lake_shop, lake_shop.file
    begin(shop)
    shop.sql("DELETE FROM notes", "INSERT INTO notes VALUES ('new')")
    shop.until_current()
    live = {uri.rpartition("/")[2] for uri in shop.delta("notes").file_uris()}
    for path in (shop.lake / "main" / "notes").glob("*.*"):
        if path.name not in live:
            path.unlink()
    *_, oldest = listed(shop.done("offsets", "list", file).stdout)
    refused = shop.refused("RPL-3411", "rewind", file, "--offset", oldest, "--yes")
    later, *_ = listed(shop.follow(refused, "RPL-3411", "offsets list").stdout)
    shop.done("rewind", file, "--offset", later, "--yes")
    shop.follow(refused, "RPL-3411", "table resync")
    shop.done("rewind", file, "--offset", oldest, "--yes")
    shop.until_current()
    shop.assert_equal()
