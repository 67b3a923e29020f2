"""Counts of changes over restarts and replays, in one process: they equal what was changed at the source."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.run_state.run import Run
from replicator_sdk import TableId, failpoint
from replicator_sdk.errors import FencedError, RetryableError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.control.test_control import ask
from tests.runtime.engine.stream.test_ddl_recovery import Spread
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["shop"]
POINTS = (
    "engine.batch.gathered",
    "engine.batch.applied",
    "engine.offset.before_save",
    "engine.offset.after_save",
    "state.offset.before_write",
    "state.put.before",
)


def change(shop: Shop, chance: random.Random, made: Counter[str]) -> None:
    first = chance.randint(10_000, 10**9)
    statements = [
        ("customers insert", f"INSERT INTO customers VALUES ({first}, 'a'), ({first + 1}, 'b')"),
        ("customers update", f"UPDATE customers SET name = name || 'x' WHERE id % {chance.randint(2, 9)} = 0"),
        ("customers delete", "DELETE FROM customers WHERE id = (SELECT min(id) FROM customers)"),
        ("notes insert", "INSERT INTO notes VALUES ('x'), ('y')"),
        ("notes delete", "DELETE FROM notes WHERE rowid = (SELECT max(rowid) FROM notes)"),
    ]
    with closing(sqlite3.connect(shop.path, timeout=30)) as database, database:
        for kind, statement in chance.sample(statements, 3):
            made[kind] += database.execute(statement).rowcount


def counted(shop: Shop) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, metrics in shop.status()["metrics"]["tables"].items():
        counters: dict[str, Any] = metrics["counters"]
        copied = counters.get("lake.snapshot.rows", 0)
        for operation in ("insert", "update", "delete"):
            number = counters.get(f"lake.dml.{operation}", 0) - (copied if operation == "insert" else 0)
            found[f"{name.rpartition('.')[2]} {operation}"] += number
    return +found


def test_counts_equal_the_changes_made_over_twenty_ends_by_errors(shop: Shop) -> None:
    shop.document["retries"] = {"maxDurationSeconds": 0}
    chance, made = random.Random(3), Counter[str]()
    fill(shop)
    shop.run()
    ended = 0
    for number in range(20):
        change(shop, chance, made)
        failpoint.arm(f"{chance.choice(POINTS)}=raise@{chance.randint(1, 2)}")
        try:
            shop.run()
        except RetryableError:
            ended += 1
        failpoint.arm("")
        if number % 5 == 4:
            shop.run()
            assert counted(shop) == made, number
    assert ended > 5
    shop.assert_equal()


def test_a_replay_in_one_run_counts_nothing_twice(shop: Shop) -> None:
    chance, made = random.Random(4), Counter[str]()
    fill(shop)
    shop.run()
    for point in POINTS:
        change(shop, chance, made)
        failpoint.arm(f"{point}=raise")
        shop.run()
        assert failpoint.passes(point) >= 1, "it failed once, and was tried again"
    failpoint.arm("")
    assert counted(shop) == made


def test_a_table_that_joins_and_one_that_is_copied_again_are_counted_on(shop: Shop) -> None:
    chance, made = random.Random(5), Counter[str]()
    fill(shop)
    shop.run()
    change(shop, chance, made)
    shop.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)", "INSERT INTO later VALUES (1), (2)")
    shop.run()
    shop.sql("INSERT INTO later VALUES (3)")
    made["later insert"] += 1
    change(shop, chance, made)
    shop.run()
    assert counted(shop) == made


def test_a_count_is_shown_once_it_is_stored(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """So none goes back when the process is killed, which Prometheus would take for a new counter."""
    shown: list[int] = []
    save: Callable[..., None] = Run.save_offset

    def look(run: Run, *arguments: Any) -> None:
        shown.append(run.metrics.total("dml.update"))
        save(run, *arguments)
        shown.append(run.metrics.total("dml.update"))

    fill(shop)
    shop.run()
    shop.sql("UPDATE customers SET name = 'y'")
    monkeypatch.setattr(Run, "save_offset", look)
    shop.run()
    assert (min(shown), max(shown)) == (0, 20)


def test_what_was_said_of_a_dropped_table_is_said_no_more_and_its_counts_stay(shop: Shop) -> None:
    """A rule on such a gauge, as docs/operating.md advises one, went on for as long as the run did."""
    runs: list[Run] = []
    fill(shop)
    shop.run()
    shop.sql("INSERT INTO notes VALUES ('x')", "DROP TABLE notes")

    def began(run: Run) -> None:
        runs.append(run)
        for table in ("notes", "customers"):
            run.metrics.gauge("dml.unmatched", 2, table=TableId("main", table))

    shop.run(began=began)
    [values] = [run.metrics.values() for run in runs]
    assert {table.table for _, table in values.gauges if table is not None} == {"customers"}
    assert values.gone["dml.insert"] == 21
    assert {table.table for _, table in values.counters if table is not None} == {"customers"}


def _dies(at: str, name: str) -> Callable[[str, TableId], None]:
    """A run that ends there as if it were killed: the target has what it was given, and nothing of it is counted or stored."""

    def fault(step: str, table: TableId) -> None:
        if (step, table.table) == (at, name):
            in_memory_target.STORAGE.fault = lambda step, table: None
            raise FencedError("another run has taken over", code="RPL-8401")

    return fault


@pytest.mark.parametrize("in_place", [True, False])
def test_rows_of_a_copy_that_is_not_gone_on_with_are_counted_when_the_table_is_copied_by_another(
    shop: Shop, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill right after their commit, and `table resync` is carried out by the very next run."""
    in_memory_target.STORAGE.beside = True
    monkeypatch.setattr(in_memory_target.InMemoryTarget, "copies_beside", True)
    fill(shop)
    in_memory_target.STORAGE.fault = _dies("finished", "customers")
    with pytest.raises(FencedError):
        shop.run()
    assert _copied(shop) == 0
    ask(shop, "resync", "customers", inPlace=in_place)
    shop.run()
    assert _copied(shop) == 40, "20 before the kill, and 20 by the copy that was asked for"
    shop.run()
    assert _copied(shop) == 40
    assert counted(shop) == Counter()
    shop.assert_equal()


def _copied(shop: Shop) -> int:
    tables = shop.status()["metrics"]["tables"]
    return int(tables.get("main.customers", {"counters": {}})["counters"].get("lake.snapshot.rows", 0))


@pytest.mark.parametrize(
    ("settings", "structures"),
    [
        ({}, 1),
        ({"ddlPolicies": {"truncate": "ignore"}}, 0),
        ({"ddlBlacklist": ["TRUNCATE_TABLE"]}, 0),
    ],
    ids=["applied", "ignored", "left out"],
)
def test_a_change_of_structure_that_was_not_applied_is_not_counted_where_changes_are_counted_again(
    tmp_path: Path, settings: Mapping[str, Any], structures: int
) -> None:
    """A kill after the commit of a later change of the table: the replay counts both, as far as they were applied."""
    spread = Spread(tmp_path)
    spread.document |= settings
    spread.run()
    spread.steps({"truncate": "things"}, {"insert": "things", "rows": [{"id": 2, "name": "b"}]})
    in_memory_target.STORAGE.fault = _dies("after", "things")
    with pytest.raises(FencedError):
        spread.run()
    spread.run()
    [file] = tmp_path.glob("state/default/*/*/state.json")
    [metrics] = json.loads(file.read_text())["metrics"]["tables"].values()
    counters = metrics["counters"]
    assert counters.get("lake.ddl", 0) == structures
    assert counters["lake.dml.insert"] - counters["lake.snapshot.rows"] == 1
