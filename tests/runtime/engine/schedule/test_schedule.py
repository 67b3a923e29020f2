"""The schedule of comparisons holds until an operator ends it, also where a new generation begins."""

from __future__ import annotations

from dataclasses import replace

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.schedule.schedule import (
    Schedule,
    _put,
    keep_former_schedule,
    rename_scheduled,
    stored_schedule,
)
from replicator_sdk import TableId
from tests.runtime.engine.test_run import Host, Shop, fill, shop

__all__ = ["shop"]
DAILY = Schedule(86400.0, 5000.0, (), "ops@host", 1000.0)


def kept(shop: Shop, given: Schedule | str | None = "") -> Schedule | None:
    """The schedule that a run of the newest generation has, after one was given, or none."""
    with open_run(build_pipeline(shop.document, host=Host())) as opened:  # type: ignore[arg-type]
        if not isinstance(given, str):
            _put(opened.store, given)
        keep_former_schedule(opened)
        return stored_schedule(opened.store)


def test_a_reset_keeps_the_schedule_and_one_that_was_ended_stays_so(shop: Shop) -> None:
    fill(shop)
    shop.run()
    assert kept(shop) is None
    assert kept(shop, DAILY) == DAILY
    pipeline = build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]
    for _ in range(2):
        reset(pipeline)
        shop.run()
        assert kept(shop) == DAILY
    assert kept(shop, None) is None
    reset(pipeline)
    assert kept(shop) is None
    assert kept(shop, DAILY) == DAILY


def test_tables_that_exchange_names_are_compared_under_their_new_ones_unless_another_schedule_was_given(
    shop: Shop,
) -> None:
    a, b, c = TableId("d", "a"), TableId("d", "b"), TableId("d", "c")
    names = {a: b, b: a}
    with open_run(build_pipeline(shop.document, host=Host())) as opened:  # type: ignore[arg-type]
        of_one = replace(DAILY, tables=(a, c))
        _put(opened.store, of_one)
        assert not rename_scheduled(opened.store, replace(DAILY, tables=(c,)), names)
        assert rename_scheduled(opened.store, of_one, names)
        assert stored_schedule(opened.store) == replace(DAILY, tables=(b, c))
        assert rename_scheduled(opened.store, of_one, names)
        assert stored_schedule(opened.store) == replace(DAILY, tables=(b, c))
