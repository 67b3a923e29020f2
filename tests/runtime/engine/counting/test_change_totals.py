"""Counts of tables are stored with a position, cost nothing for tables that did not change, and survive their renames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replicator_runtime.engine.counting import change_totals
from replicator_runtime.engine.counting.change_totals import ChangeTotals
from replicator_runtime.observability.metrics import MetricsRegistry
from replicator_runtime.stored_forms import TOTALS, TOTALS_CHANGES
from replicator_sdk import Position, TableId, TableProgress
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_state.value_files import UNREADABLE_STATE

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


class Store:
    """Values by key."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.damaged = ""

    def get(self, key: str) -> bytes | None:
        if key == self.damaged:
            raise NeedsUserError("it is damaged", code=UNREADABLE_STATE, hint="restore it")
        return self.values.get(key)

    def put(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def set_aside(self, key: str) -> None:
        self.values.pop(key)
        self.damaged = ""


def totals(store: Store) -> tuple[ChangeTotals, MetricsRegistry]:
    """Those of a run that begins."""
    found: Any = store
    metrics = MetricsRegistry("delta")
    made = ChangeTotals(found, MemoryOffset.from_fields, metrics)
    made.load()
    return made, metrics


def at(number: int) -> Position:
    return Position(MemoryOffset(number))


def test_another_run_goes_on_from_what_was_stored_whole_or_since() -> None:
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "c1", at(5), {"dml.insert": 3})
    first.add(ITEMS, "c2", at(5), {"ddl": 1})
    first.save()
    first.add(ORDERS, "c1", at(9), {"dml.insert": 4, "dml.delete": 1})
    first.save()
    first.add(ORDERS, "c1", at(11), {"dml.insert": 100})  # a kill follows
    second, metrics = totals(store)
    assert metrics.total("dml.insert", table=ORDERS) == metrics.total("dml.insert") == 7
    assert metrics.total("ddl", table=ITEMS) == 1
    saved = MemoryOffset(2)
    assert second.begin(ORDERS, "c1", at(1), at(11), saved) == at(9), "what the target has beyond is counted again"
    assert second.begin(ITEMS, "c2", at(1), at(5), saved) is None
    assert second.begin(ITEMS, "another copy", at(4), at(5), saved) == at(4), "its copy has what is before"
    assert second.begin(TableId("shop", "new"), "", None, at(3), saved) == at(2)


def test_changes_of_before_the_last_whole_store_count_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    first, _ = totals(store)
    for number in range(3):
        first.add(ORDERS, "", at(number), {"dml.update": 1})
        first.save()
    monkeypatch.setattr(change_totals, "_WHOLE_SECONDS", 0.0)
    first.add(ORDERS, "", at(4), {"dml.update": 1})
    first.save()
    _, metrics = totals(store)
    assert metrics.total("dml.update", table=ORDERS) == 4


def test_a_save_costs_nothing_for_tables_that_did_not_change() -> None:
    store = Store()
    many, _ = totals(store)
    for number in range(2000):
        many.add(TableId("shop", f"t{number}"), "", at(1), {"dml.insert": 1})
    many.save()
    whole = store.values[TOTALS]
    many.add(ORDERS, "", at(2), {"dml.insert": 1})
    many.save()
    assert store.values[TOTALS] is whole
    assert len(store.values[TOTALS_CHANGES]) < len(whole) / 500
    before = dict(store.values)
    many.save()
    assert store.values == before, "nothing changed"


def test_counts_follow_a_table_to_its_new_name_also_when_a_kill_comes_between() -> None:
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "c1", at(5), {"dml.insert": 3})
    first.add(ITEMS, "c2", at(5), {"dml.insert": 1})
    first.save()
    killed, metrics = totals(store)
    renamed = TableId("shop", "renamed")
    killed.forget_others({renamed: "c1", ITEMS: "c2"})
    assert killed.begin(renamed, "c1", at(1), at(7), None) == at(5)
    assert metrics.total("dml.insert", table=renamed) == 3
    assert metrics.total("dml.insert") == 4
    first.rename({ORDERS: ITEMS, ITEMS: ORDERS})
    first.save()
    _, metrics = totals(store)
    assert (metrics.total("dml.insert", table=ITEMS), metrics.total("dml.insert", table=ORDERS)) == (3, 1)


def test_a_table_that_is_gone_leaves_its_counts_to_the_whole() -> None:
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "c1", at(5), {"dml.insert": 3})
    first.save()
    first.forget_others({})
    first.save()
    second, metrics = totals(store)
    assert (metrics.total("dml.insert"), metrics.total("dml.insert", table=ORDERS)) == (3, 0)
    second.add(ORDERS, "c9", at(9), {"dml.insert": 1})
    second.save()
    _, metrics = totals(store)
    assert (metrics.total("dml.insert"), metrics.total("dml.insert", table=ORDERS)) == (4, 1)


def test_a_table_that_is_gone_keeps_no_counter_of_its_own_and_none_falls_when_a_kill_follows() -> None:
    store = Store()
    first, metrics = totals(store)
    first.add(ORDERS, "c1", at(5), {"dml.insert": 3})
    first.add(ITEMS, "c2", at(5), {"dml.insert": 4})
    metrics.count("failures.RPL-4401", 2, table=ORDERS)
    first.forget_others({ITEMS: "c2"})
    for shown in (metrics, totals(store)[1]):  # the second as after a kill, which comes before anything else is stored
        values = shown.values()
        assert values.gone["dml.insert"] == 3
        assert values.counters["dml.insert", None] == 7
        assert not [key for key in values.counters if key[1] == ORDERS]
    assert metrics.values().gone["failures.RPL-4401"] == 2


def test_counts_of_a_table_that_is_gone_are_not_lost_when_others_are_renamed_before_they_are_stored() -> None:
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "c1", at(5), {"dml.insert": 3})
    first.add(ITEMS, "c2", at(5), {"dml.insert": 4})
    first.save()
    put = store.put

    def refuse(key: str, value: bytes) -> None:
        raise NeedsUserError("full", code="RPL-7103", hint="free space")

    store.put = refuse  # type: ignore[method-assign]
    with pytest.raises(NeedsUserError):
        first.forget_others({ITEMS: "c2"})
    store.put = put  # type: ignore[method-assign]
    first.rename({ITEMS: TableId("shop", "renamed")})
    assert totals(store)[1].total("dml.insert") == 7


def test_a_table_that_went_back_is_counted_from_there() -> None:
    """An operator went back with it: what it gets again is replicated again."""
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "c1", at(9), {"dml.insert": 3})
    first.save()
    assert first.begin(ORDERS, "c1", at(1), at(4), MemoryOffset(4)) is None
    first.save()
    second, _ = totals(store)
    assert second.begin(ORDERS, "c1", at(1), at(6), MemoryOffset(4)) == at(4)


def test_damaged_counts_end_no_run() -> None:
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "", at(1), {"ddl": 1})
    first.save()
    store.damaged = TOTALS
    _, metrics = totals(store)
    assert metrics.total("ddl") == 0


def test_rows_that_a_copy_wrote_before_a_kill_are_counted_from_the_tables_own_commit() -> None:
    store = Store()
    first, _ = totals(store)
    first.copied(ORDERS, "plan", 30)
    first.save()
    first.copied(ORDERS, "plan", 20)  # a kill follows
    second, metrics = totals(store)
    found = TableProgress(1, 1, at(5), snapshot_id="plan", snapshot_rows=50)
    for _ in range(2):
        second.recover(ORDERS, "plan", found)
        second.recover(ITEMS, "none", TableProgress(1, 1, at(5)))
    second.copied(ORDERS, "plan", 5)
    second.save()
    assert metrics.total("snapshot.rows", table=ORDERS) == metrics.total("dml.insert") == 55
    third, metrics = totals(store)
    third.recover(ORDERS, "plan", replace(found, snapshot_rows=55))
    third.recover(ORDERS, "another", TableProgress(1, 1, at(5), snapshot_id="another", snapshot_rows=7))
    third.save()
    assert metrics.total("snapshot.rows", table=ORDERS) == 62, "every copy's rows are counted"


def test_changes_that_executors_applied_before_a_kill_are_counted_from_the_tables_own_commit() -> None:
    store = Store()
    first, _ = totals(store)
    first.add(ORDERS, "", at(1), {"dml.insert": 3})
    before = first.before_slice([ORDERS, ITEMS])  # its names are stored; a kill follows the commit
    committed = TableProgress(1, 1, at(9), counted=before[ORDERS].plus(4, 2, 1))
    new = TableProgress(1, 1, at(9), counted=before[ITEMS].plus(5, 0, 0))
    second, metrics = totals(store)
    for _ in range(2):
        second.recover(ORDERS, "", committed)
        second.recover(ITEMS, "", new)
    second.save()
    counts = {name: metrics.total(f"dml.{name}", table=ORDERS) for name in ("insert", "update", "delete")}
    assert counts == {"insert": 7, "update": 2, "delete": 1}
    assert metrics.total("dml.insert", table=ITEMS) == 5
    assert second.begin(ORDERS, "", None, at(9), MemoryOffset(0)) is None, "a replay counts none of them again"


def test_the_count_of_another_table_of_that_name_adds_nothing() -> None:
    store = Store()
    first, _ = totals(store)
    old = TableProgress(1, 1, at(9), counted=first.before_slice([ORDERS])[ORDERS].plus(4, 0, 0))
    first.recover(ORDERS, "", old)
    first.forget_others({})
    first.before_slice([ORDERS])
    first.recover(ORDERS, "", old)
    first.save()
    _, metrics = totals(store)
    assert metrics.total("dml.insert") == 4
    assert metrics.total("dml.insert", table=ORDERS) == 0
