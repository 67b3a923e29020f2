"""What errors of comparisons and repairs advise is done as it is printed, with tables in Delta."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from replicator_runtime.engine.repair import request_keys, rows, table_repair
from replicator_runtime.engine.schedule import regular_verification
from replicator_runtime.engine.verification import table_comparison
from replicator_runtime.engine.verification.table_comparison import Settings
from replicator_sdk import BatchIdentity, Position
from replicator_source_sqlite.offset import SqliteOffset
from tests.follows import follows
from tests.runtime.engine.apply.test_rejoining import at_work
from tests.runtime.engine.test_run import _wait, fill

if TYPE_CHECKING:
    import pytest

    from replicator_sdk import TableProgress
    from tests.runtime.cli.next_steps.operator_shop import OperatorShop

_ROWS = {"wide": 3, "bulk": 7, "many": 15}


@follows("RPL-5030", "RPL-5031", "RPL-1282", "RPL-1368", "RPL-1370", "RPL-1371", "RPL-1372", "RPL-1373", "RPL-1376")
def test_tables_that_differ_are_repaired_or_copied_again(
    lake_shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds are those of small tables; each table passes another one."""
    shop, file = lake_shop, lake_shop.file
    for table, count in _ROWS.items():
        shop.sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT)")
        shop.sql(f"INSERT INTO {table} SELECT value, 'n' FROM json_each('{list(range(count))}')")
    fill(shop)
    shop.until_current()
    for table in ("customers", "notes", *_ROWS):
        shop.damage(table)

    refused = shop.refused("RPL-5031", "explain-row", file, "customers", "id=3")
    shop.follow(refused, "RPL-5031", "verify", "--repair")
    keyless = shop.refused("RPL-1282", "explain-row", file, "notes", "id=3")
    with monkeypatch.context() as few:
        few.setattr(table_comparison, "Settings", partial(Settings, keys_at_most=10))
        few.setattr(request_keys, "KEYS_AT_MOST", 5)
        few.setattr(rows, "BYTES_AT_MOST", 10)
        refused = shop.refused("RPL-5030", "verify", file, "notes", *_ROWS, "--repair", "--yes")
    for code in ("RPL-1368", "RPL-1371", "RPL-1372", "RPL-1376", "RPL-5030"):
        shop.follow(refused, code, "table resync")
    for code, owner, name, other in (
        ("RPL-1370", table_repair, "RepairableConsumer", type(None)),  # a target that is read, and repairs nothing
        ("RPL-1373", rows, "original", refuse),
    ):
        shop.until_current()
        shop.damage("wide")
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, other)
            refused = shop.refused("RPL-5030", "verify", file, "wide", "--repair", "--yes")
        shop.follow(refused, code, "table resync")
    shop.until_current()
    shop.follow(keyless, "RPL-1282", "verify")
    shop.assert_equal("customers", "notes", *_ROWS)


def refuse(values: object, kind: object) -> None:
    """A form of values from which the source's do not come back."""
    raise ValueError


@follows("RPL-1364", "RPL-1365", "RPL-1367", "RPL-1360")
def test_tables_that_could_not_be_compared_can_be_afterwards(
    lake_shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, file = lake_shop, lake_shop.file
    fill(shop)
    shop.document["tables"] = [
        {"table": "customers", "where": "id < 10"}, {"table": "notes", "dmlBlacklist": ["UPDATE"]},
    ]  # fmt: skip
    shop.until_current()
    refused = [shop.refused("RPL-1364", "verify", file, table) for table in ("customers", "notes")]
    shop.document["tables"] = [{"table": "customers"}, {"table": "notes"}]
    for one in refused:
        shop.follow(one, "RPL-1364", "table resync")
    paused = shop.refused("RPL-1365", "verify", file, "notes")
    assert "main.notes will be copied again" in shop.follow(paused, "RPL-1365", "status").stdout
    shop.until_current()
    [line] = [text for text in shop.follow(paused, "RPL-1365", "status").stdout.splitlines() if "main.notes" in text]
    assert "REPLICATING" in line

    shop.sql("UPDATE customers SET name = 'later' WHERE id = 3")
    late = shop.refused("RPL-1367", "verify", file, "customers")
    shop.follow(late, "RPL-1367", "run", "--until-current")
    monkeypatch.chdir(file.parent)
    refused_name = shop.refused("RPL-1360", "verify", "shop", "--base", shop.base)
    shop.follow(refused_name, "RPL-1360", "verify")
    shop.assert_equal()


@follows("RPL-1363", "RPL-1381")
def test_what_cannot_be_compared_beside_a_run_that_is_late_is_later_or_by_itself(
    lake_shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, file = lake_shop, lake_shop.file
    fill(shop)
    shop.until_current()
    shop.damage("customers")
    shop.done("verify", file, "customers", "--every", "1h")
    monkeypatch.setattr(regular_verification, "_ROWS_AT_MOST", 5)
    shop.document["batch"]["maxIntervalSeconds"] = 600  # the run gathers changes, and is late until it ends
    with at_work(shop):
        _wait(lambda: "RPL-1381" in shop.done("status", file).stdout, 300)
        shop.sql("INSERT INTO notes VALUES ('later')")
        late = shop.refused("RPL-1363", "verify", file, "notes", "--timeout", "0.1")
        shown = shop.follow(late, "RPL-1363", "status").stdout
        assert "streaming" in shown
        assert ", lag " in shown
    differs = shop.follow(shop.done("status", file), "RPL-1381", "verify", status=5)
    shop.follow(differs, "RPL-5030", "table resync")
    shop.sql("INSERT INTO notes VALUES ('even later')")
    shop.follow(late, "RPL-1363", "run", "--until-current")
    shop.assert_equal()


@follows("RPL-4115")
def test_a_repair_that_finds_the_table_elsewhere_is_given_again(
    lake_shop: OperatorShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target finds another program's commits before this error: the position that the repair has read is a false one here."""
    shop, file = lake_shop, lake_shop.file
    fill(shop)
    shop.until_current()
    shop.sql("INSERT INTO customers VALUES (50, 'later')")
    shop.until_current()
    shop.damage("customers")
    words = ("verify", file, "customers", "--repair", "--yes")
    identity = table_repair.TableRepair._identity

    def earlier(repair: table_repair.TableRepair, progress: TableProgress) -> BatchIdentity:
        return replace(identity(repair, progress), position=Position(SqliteOffset(0)))

    with monkeypatch.context() as patch:
        patch.setattr(table_repair.TableRepair, "_identity", earlier)
        refused = shop.replicator(*words)
    assert "RPL-4115: " in refused.output, refused.output
    assert "done" in shop.follow(refused, "RPL-4115", "status").stdout
    shop.done(*words)
    shop.assert_equal()
    shop.goes_on()
