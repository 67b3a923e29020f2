"""What targets advise about a table is, at a source that copies no tables, something that it can do: a broker, with tables in Delta."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.kafka.tables import TABLES, KafkaTables
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.kafka.stream import kafka_source
from tests.runtime.cli.next_steps.sources.delayed import meanwhile

if TYPE_CHECKING:
    from typer.testing import Result

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.kafka.broker import KafkaBroker

_CHANCE = random.Random(5)


@pytest.fixture
def tables(kafka: KafkaBroker, lake_shop: OperatorShop) -> KafkaTables:
    """Two tables in topics, which the shop has copied."""
    made = KafkaTables(kafka)
    lake_shop.read(*kafka_source(kafka, made.topics))
    lake_shop.document.pop("tables", None)
    lake_shop.document["retries"] = {"maxDurationSeconds": 0}
    lake_shop.until_current()
    assert_equal(lake_shop, made)
    return made


def folder(shop: OperatorShop, table: str) -> Path:
    [found] = shop.lake.rglob(f"{table}/_delta_log")
    return found.parent


def assert_equal(shop: OperatorShop, tables: KafkaTables, where: str = "") -> None:
    for table in TABLES:
        names = tables.columns(table)
        read = delta_rows(folder(shop, table), [*names, *([where] if where else [])])
        assert Counter(row[: len(names)] for row in read if not (where and row[-1])) == tables.rows(table), table


def filled_again(shop: OperatorShop, tables: KafkaTables, refused: Result, code: str, where: str = "") -> None:
    """Do what the error says, which no command of one table is; then three runs end equal."""
    for shown in (refused, shop.done("status", shop.file)):
        assert "table resync" not in shown.output, shown.output
    assert "snapshot its tables again" in refused.output
    shop.follow(refused, code, "reset")
    for _ in range(3):
        shop.until_current()
        assert_equal(shop, tables, where)
        tables.change_rows(_CHANCE)
        tables.change_structure()


def test_a_table_that_is_to_have_other_columns_is_filled_again_after_a_reset(
    lake_shop: OperatorShop, tables: KafkaTables
) -> None:
    shop = lake_shop
    shop.document["stages"][1]["plugin"]["properties"]["softDeletes"] = True
    planned = shop.replicator("plan", shop.file)
    assert "`replicator reset " in planned.output, planned.output
    assert "table resync" not in planned.output
    shop.document["edits"] = "apply"
    tables.change_rows(_CHANCE)
    refused = shop.refused("RPL-6405", "run", shop.file, "--until-current")
    filled_again(shop, tables, refused, "RPL-6405", "_is_deleted")


def test_a_table_that_is_deleted_just_before_a_commit_is_filled_again_after_a_reset(
    lake_shop: OperatorShop, tables: KafkaTables
) -> None:
    shop = lake_shop
    tables.change_rows(_CHANCE)
    gone = folder(shop, "note")
    with meanwhile("engine.slice.planned", lambda: shutil.rmtree(gone)):
        refused = shop.refused("RPL-4113", "run", shop.file, "--until-current")
    filled_again(shop, tables, refused, "RPL-4113")
