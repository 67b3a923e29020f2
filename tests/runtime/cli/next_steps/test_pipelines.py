"""What errors about the pipeline's file advise is done as it is printed."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_state.lease.lease_record import LeaseRecord
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.archive.test_archive import assert_archived
from tests.runtime.engine.archive.test_half_files import manifests
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.test_run import fill

if TYPE_CHECKING:
    from replicator_sdk import TableId
    from tests.runtime.cli.next_steps.operator_shop import OperatorShop


@follows("RPL-1101")
def test_the_plugin_that_was_meant_is_listed(shop: OperatorShop) -> None:
    plugin = shop.document["stages"][0]["plugin"]
    plugin["name"] = "sqllite"
    refused = shop.refused("RPL-1101", "validate", shop.file)
    shown = shop.follow(refused, "RPL-1101", "plugins").stdout
    [plugin["name"]] = {word for word in shown.split() if word == "sqlite"}
    shop.done("validate", shop.file)


@follows("RPL-2001", "RPL-2002")
@pytest.mark.parametrize(("named", "code"), [("costumers", "RPL-2001"), ("nothing*", "RPL-2002")])
def test_the_table_that_was_meant_is_listed(shop: OperatorShop, named: str, code: str) -> None:
    fill(shop)
    shop.document["tables"] = [{"table": named}]
    refused = shop.refused(code, "run", shop.file, "--until-current")
    shown = shop.follow(refused, code, "tables").stdout
    [name] = [word.rpartition(".")[2] for word in shown.split() if word.endswith("customers")]
    shop.document["tables"] = [{"table": name}]
    shop.until_current()
    shop.assert_equal("customers")


@follows("RPL-1203")
def test_a_table_to_be_maintained_is_listed(lake_shop: OperatorShop) -> None:
    shop = lake_shop
    fill(shop)
    shop.until_current()
    refused = shop.refused("RPL-1203", "maintain", shop.file, "--table", "note")
    shown = shop.follow(refused, "RPL-1203", "status").stdout
    [name] = [word for word in shown.split() if word.endswith("notes")]
    shop.done("maintain", shop.file, "--table", name)


@follows("RPL-1362")
def test_tables_that_cannot_be_compared_are_copied_again(shop: OperatorShop) -> None:
    fill(shop)
    shop.until_current()
    for words in (("verify", shop.file, "notes"), ("explain-row", shop.file, "customers", "id=1")):
        refused = shop.refused("RPL-1362", *words)
        shop.follow(refused, "RPL-1362", "table resync")
    shop.goes_on()


@follows("RPL-7131")
def test_a_run_that_a_newer_one_has_replaced_ends_and_is_not_what_goes_on(shop: OperatorShop) -> None:
    claims: list[Path] = []

    def taken_over(step: str, table: TableId) -> None:
        """A newer run has begun, and ended."""
        if step == "before" and not claims:
            claims.extend(sorted(Path(shop.base).glob("default/shop/**/epoch.*"))[-1:])
            number, held = int(claims[0].name.split(".")[1]), LeaseRecord.from_bytes(claims[0].read_bytes())
            assert held is not None
            ended = held.renewed(datetime.now(UTC), released=True)
            claims[0].with_name(f"epoch.{number + 1:020d}").write_bytes(ended.to_bytes())

    fill(shop)
    shop.until_current()
    shop.sql("INSERT INTO notes VALUES ('later')")
    in_memory_target.STORAGE.fault = taken_over
    refused = shop.refused("RPL-7131", "run", shop.file, "--until-current")
    assert claims
    assert "main.notes" in shop.follow(refused, "RPL-7131", "status").stdout
    shop.goes_on()


@follows("RPL-1211")
def test_a_source_of_another_kind_is_copied_after_a_reset(shop: OperatorShop) -> None:
    fill(shop)
    shop.until_current()
    plugin = shop.document["stages"][0]["plugin"]
    plugin["name"], plugin["properties"]["path"] = "other", str(shop.path.with_name("other.db"))
    with closing(sqlite3.connect(shop.path)) as old, closing(sqlite3.connect(shop.path.with_name("other.db"))) as new:
        old.backup(new)
    shop.path = shop.path.with_name("other.db")
    refused = shop.refused("RPL-1211", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-1211", "reset")
    shop.goes_on()


@follows("RPL-1253")
def test_a_damaged_archive_is_left_and_another_begins_with_copies(shop: OperatorShop) -> None:
    archive, state = shop.path.with_name("archive"), shop.path.with_name("state")
    shop.document["archive"] = {"path": str(archive)}
    fill(shop)
    shop.until_current()
    known = len(manifests(archive))
    shutil.copytree(state, shop.path.with_name("backup"))
    for number in range(2):
        shop.sql(f"INSERT INTO customers VALUES ({100 + number}, 'one')")
        shop.until_current()
    shutil.rmtree(state)
    shutil.copytree(shop.path.with_name("backup"), state)
    damaged = manifests(archive)[known]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    refused = shop.refused("RPL-1253", "run", shop.file, "--until-current")
    shop.document["archive"] = {"path": str(shop.path.with_name("new"))}
    shop.follow(refused, "RPL-1253", "reset")
    shop.until_current()
    assert_archived(shop, shop.path.with_name("new"))


@follows("RPL-3515")
def test_an_offset_to_begin_at_is_in_the_list_of_another_pipeline(shop: OperatorShop) -> None:
    """The command is not completed with the pipeline that never ran."""
    fill(shop)
    shop.until_current()
    shop.sql("INSERT INTO notes VALUES ('read')")
    shop.until_current()
    shop.sql("INSERT INTO notes VALUES ('new')")
    other = shop.file.rename(shop.file.with_name("other.json"))
    shop.document |= {"name": "second", "snapshot": {"mode": "never", "from": {"offset": "offset.1"}}}
    in_memory_target.STORAGE = TargetStorage()
    refused = shop.refused("RPL-3515", "run", shop.file, "--until-current")
    assert set(re.findall(r"`replicator (offsets list [^`]+)`", refused.stderr)) == {"offsets list OTHER"}
    _, newest, *_ = shop.done("offsets", "list", other).stdout.splitlines()
    shop.document["snapshot"]["from"] = {"offset": newest.split()[-1]}
    shop.until_current()
    assert in_memory_target.STORAGE.rows("notes") == [{"text": "new"}]
