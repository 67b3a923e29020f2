"""Errors that come and go stay visible until they have been away for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk import TableId
from replicator_sdk.errors import RetryableError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, fill, shop

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["shop"]
TABLE = TableId("main", "customers")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the time of day."""
    true_time, moved = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: true_time() + moved[0])
    return lambda seconds: moved.__setitem__(0, moved[0] + seconds)


def away(code: str = "RPL-4001") -> RetryableError:
    return RetryableError("it is away", code=code, hint="start it")


def test_an_error_of_the_source_is_shown_until_it_was_away_for_a_quarter_of_an_hour(
    clock: Callable[[float], None],
) -> None:
    progress = Progress()
    for _ in range(3):
        progress.source_error = away()
        clock(2000)  # as long as it is there it is no older
        progress.source_error = None
        clock(600)
    last = progress.snapshot().last_error
    assert last is not None
    assert (last.parts["code"], last.times) == ("RPL-4001", 3)
    clock(400)
    assert progress.snapshot().last_error is None


def test_an_error_of_a_table_is_shown_after_it_works_again(clock: Callable[[float], None]) -> None:
    progress = Progress()
    progress.set_table(TABLE, TableState.FAILING, away("RPL-4403"))
    progress.set_table(TABLE, TableState.REPLICATING)
    (view,) = progress.snapshot().tables
    assert view.error_parts is None
    assert view.last_error is not None
    assert view.last_error.parts["code"] == "RPL-4403"
    clock(1000)
    assert progress.snapshot().tables[0].last_error is None


def test_the_next_run_shows_what_ended_the_one_before(shop: Shop) -> None:
    def fault(step: str, where: TableId) -> None:
        if step == "before":
            raise away("RPL-4999")

    fill(shop)
    shop.run()
    assert shop.status()["lastError"] is None
    shop.document["retries"] = {"maxDurationSeconds": 0.1, "delaySeconds": 0.1}
    shop.document["onTableError"] = "stop"
    shop.sql("UPDATE customers SET name = 'x' WHERE id = 1")
    in_memory_target.STORAGE.fault = fault
    with pytest.raises(RetryableError):
        shop.run()
    in_memory_target.STORAGE.fault = lambda step, where: None
    shop.run()
    status: dict[str, Any] = shop.status()
    assert status["sourceError"] is None
    assert status["lastError"]["code"] == "RPL-4999"
    assert status["lastError"]["at"] < status["updated"]
