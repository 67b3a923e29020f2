"""A table in an older state (rolled back, or its folder put back from a backup) is copied again, also when nothing changes at the source."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from tests.runtime.cli.next_steps.iceberg.iceberg_shop import IcebergShop, fill, of

if TYPE_CHECKING:
    from replicator_target_iceberg.jvm import Catalog


def rolls_back(table: Any, _: Catalog) -> None:
    """To the snapshot before the newest one."""
    table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit()


def test_tables_in_an_older_state_are_copied_again(iceberg_shop: IcebergShop) -> None:
    shop = iceberg_shop
    fill(shop, "rolled", "restored")
    shop.until_current()
    backup = shop.lake.with_name("backup")
    shutil.copytree(shop.place(of("restored")), backup)
    for table in ("rolled", "restored"):
        shop.sql(f"UPDATE {table} SET name = 'new' WHERE id = 1", f"DELETE FROM {table} WHERE id = 2")
    shop.until_current()
    shop.assert_equal("rolled", "restored")
    shop.foreign(of("rolled"), rolls_back)
    shutil.rmtree(shop.place(of("restored")))
    shutil.copytree(backup, shop.place(of("restored")))
    assert len(shop.rows_of(of("rolled"), "id")) == len(shop.rows_of(of("restored"), "id")) == 3
    noticed = shop.replicator("run", shop.file, "--until-current")
    assert noticed.stderr.count("RPL-4110") + noticed.stdout.count("RPL-4110") == 2, noticed.stderr
    shop.assert_equal("customers", "rolled", "restored")
    for number in range(3):
        for table in ("rolled", "restored"):
            shop.sql(
                f"ALTER TABLE {table} ADD COLUMN more{number} TEXT", f"INSERT INTO {table} (id) VALUES ({10 + number})"
            )
        later = shop.replicator("run", shop.file, "--until-current")
        assert "RPL-4110" not in later.stderr + later.stdout
        shop.assert_equal("customers", "rolled", "restored")
