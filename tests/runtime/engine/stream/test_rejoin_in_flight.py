"""An attempt that ends while a batch is being applied: the next one asks the target how far the batch's tables are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replicator_runtime.engine.batching.sequencer import CommitMark
from replicator_runtime.engine.run_state.attempt_end import Rejoin
from replicator_runtime.engine.stream.stream import Stream
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import at_work, count
from tests.runtime.engine.test_run import Shop, _wait, fill, shop

if TYPE_CHECKING:
    import pytest

    from replicator_sdk import TableId

__all__ = ["shop"]


def test_changes_that_are_being_applied_when_the_attempt_ends_are_not_applied_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when another table is renamed then. The next batch has them, and more changes of their table."""
    fill(shop)
    shop.run()
    take = Stream._take
    ended: list[Any] = []

    def take_or_end(self: Stream, item: Any) -> None:
        if isinstance(item, CommitMark) and self._in_flight.is_applying and not ended:
            ended.append(item)
            raise Rejoin
        take(self, item)

    monkeypatch.setattr(Stream, "_take", take_or_end)
    applying: list[str] = []

    def slow(step: str, table: TableId) -> None:
        if step == "before" and table.table == "notes" and not ended:
            applying.append(step)
            _wait(lambda: bool(ended))

    in_memory_target.STORAGE.fault = slow
    with at_work(shop):
        shop.sql("INSERT INTO notes VALUES ('being applied')")
        _wait(lambda: bool(applying))
        shop.sql("INSERT INTO notes VALUES ('later')")
        _wait(lambda: bool(ended))
        _wait(lambda: count("notes") >= 22)
    shop.run()
    shop.assert_equal()
