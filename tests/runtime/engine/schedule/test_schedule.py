"""The schedule of comparisons holds until an operator ends it, also where a new generation begins."""

from __future__ import annotations

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.schedule.schedule import Schedule, _put, keep_former_schedule, stored_schedule
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
