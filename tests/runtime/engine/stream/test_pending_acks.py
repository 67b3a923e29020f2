"""A target that takes changes ahead of its commits: nothing is lost, nothing doubled, and the offset never runs ahead."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_runtime.engine.batching.batching import AppliedBatch
from replicator_runtime.engine.batching.segment import Tally
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.stream.pending_acks import PendingAcks
from replicator_sdk import Position, TableId, failpoint
from replicator_sdk.errors import DataError, FencedError, ReplicatorError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_state import ReplicatorDirectory
from tests.runtime.engine import deferred_target, in_memory_target
from tests.runtime.engine.deferred_target import DeferredTarget
from tests.runtime.engine.in_memory_target import TargetStorage
from tests.runtime.engine.test_run import Host, Shop, change, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any


class LateHost(Host):
    def target(self, name: str) -> type[DeferredTarget]:
        return DeferredTarget


class DeferredShop(Shop):
    def run(self, **more: Any) -> Any:
        from replicator_runtime.config import build_pipeline
        from replicator_runtime.engine.worker import run

        pipeline = build_pipeline(self.document, host=LateHost())  # type: ignore[arg-type]
        return run(pipeline, **{"until_current": True, **more})

    def offset(self) -> object:
        """The offset that is saved."""
        saved = ReplicatorDirectory(str(self.path.parent / "state"), "default", "shop").offsets().latest()
        return saved and saved.fields


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[DeferredShop]:
    in_memory_target.STORAGE = TargetStorage()
    deferred_target.COMMITS_BY_ITSELF.clear()
    deferred_target.TAKEN.clear()
    made = DeferredShop(tmp_path)
    fill(made)
    made.run()
    change(made)
    yield made
    failpoint.arm("")


def test_a_run_to_the_end_has_everything_durable(shop: DeferredShop) -> None:
    shop.run()
    shop.assert_equal()
    shop.sql(
        "UPDATE customers SET name = 'before' WHERE id < 3",
        "ALTER TABLE customers ADD COLUMN city TEXT",
        "UPDATE customers SET city = 'Rome' WHERE id = 1",
    )
    shop.run()
    shop.assert_equal()


def crash_with_changes_taken(shop: DeferredShop) -> None:
    """A run whose attempt fails once every table has taken changes and none has committed them."""
    failpoint.arm("engine.batch.applied=raise@1")
    deferred_target.TAKEN.clear()
    shop.run()
    assert len(deferred_target.TAKEN) > 2, "changes were taken, lost and taken again"


def test_what_was_taken_and_not_committed_comes_again(shop: DeferredShop) -> None:
    crash_with_changes_taken(shop)
    shop.assert_equal()


def test_without_waiting_for_the_commit_it_would_be_lost(shop: DeferredShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: offsets saved, and positions raised, as if what is taken were durable."""

    def take(self: PendingAcks, items: Any, failures: Any) -> None:
        self._record_applied(items, failures)

    monkeypatch.setattr(PendingAcks, "take", take)
    shop.run()
    with pytest.raises(AssertionError):
        shop.assert_equal()


def endless(shop: DeferredShop, stop: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=Progress()))
    thread.start()
    return thread


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def test_no_offset_is_saved_before_the_commit(shop: DeferredShop) -> None:
    saved, stop = shop.offset(), threading.Event()
    thread = endless(shop, stop)
    try:
        wait_for(lambda: len(set(deferred_target.TAKEN)) == 2)
        time.sleep(0.5)
        assert shop.offset() == saved
        deferred_target.COMMITS_BY_ITSELF.append(lambda table: table.table == "notes")
        time.sleep(0.5)
        assert shop.offset() == saved, "one table's commit does not move the offset past another's changes"
        deferred_target.COMMITS_BY_ITSELF.append(lambda _: True)
        wait_for(lambda: shop.offset() != saved)
        shop.assert_equal()
    finally:
        stop.set()
        thread.join(120)


def test_a_commit_that_fails_stops_its_table_alone(shop: DeferredShop) -> None:
    def fault(at: str, where: TableId) -> None:
        if (at, where.table) == ("before", "notes"):
            raise DataError("a value does not fit", code="RPL-5001", hint="widen it")

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(DataError, match=r"RPL-5001.*main\.notes"):
        shop.run()
    shop.assert_equal("customers")
    in_memory_target.STORAGE.fault = lambda at, where: None
    shop.run()
    shop.assert_equal()


def test_a_commit_that_fails_for_a_while_is_repeated(shop: DeferredShop) -> None:
    failures: list[str] = []

    def fault(at: str, where: TableId) -> None:
        if at == "before" and len(failures) < 2:
            failures.append(where.table)
            raise OSError("the target went away")

    in_memory_target.STORAGE.fault = fault
    shop.run()
    assert len(failures) == 2
    shop.assert_equal()


class Slow:
    """A consumer whose tables have the positions that the test sets."""

    def __init__(self) -> None:
        self.positions: dict[TableId, Position] = {}

    def settled(self, table: TableId) -> Position | None:
        return self.positions.get(table)


class Watermarks:
    """The part of `ActiveTables` that is called."""

    def __init__(self) -> None:
        self.durable: list[tuple[TableId, Position]] = []

    def record_applied(self, items: Any, failures: Any) -> None:
        assert not failures
        self.durable += [(item.table, item.position) for item in items]


@given(st.lists(st.tuples(st.sampled_from(["take", "settle"]), st.sampled_from("abc")), max_size=40))
def test_what_is_reached_is_durable_in_every_table_and_as_far_as_can_be(steps: list[tuple[str, str]]) -> None:
    consumer, watermarks = Slow(), Watermarks()
    pending = PendingAcks(consumer, watermarks.record_applied)  # type: ignore[arg-type]
    taken: list[tuple[int, TableId]] = []
    reached = 0
    for number, (what, name) in enumerate(steps, 1):
        table, here = TableId("d", name), Position(MemoryOffset(number))
        if what == "take":
            taken.append((number, table))
            pending.take([AppliedBatch(table, here, Tally(1, 0, 0, number, number, -1, is_snapshot=False))], {})
        else:
            consumer.positions[table] = here
            pending.poll()
        pending.mark((MemoryOffset(number), number))
        now = pending.reached()
        reached = reached if now is None else now[1]
        left = [n for n, of in taken if of not in consumer.positions or not n <= _number(consumer.positions[of])]
        assert reached == (min(left) - 1 if left else number)
        assert pending.waits is bool(left)
        assert sorted(_number(p) for _, p in watermarks.durable) == sorted({n for n, _ in taken} - set(left))


def _number(position: Position) -> int:
    assert isinstance(position.offset, MemoryOffset)
    return position.offset.transaction


def test_a_fenced_commit_ends_the_run(shop: DeferredShop) -> None:
    def fault(at: str, where: TableId) -> None:
        if at == "before":
            raise FencedError("a newer run has it", code="RPL-8001", table=str(where))

    in_memory_target.STORAGE.fault = fault
    with pytest.raises(ReplicatorError) as caught:
        shop.run()
    assert caught.value.exit_code == 8
