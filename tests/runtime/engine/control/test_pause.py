"""A paused replicator reads nothing, live and over restarts, says so, and goes on where it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.control import carry_out_alone
from replicator_runtime.engine.run_state.progress import Progress
from replicator_runtime.engine.worker import run
from replicator_sdk.errors import NeedsUserError
from replicator_source_sqlite.plugin import SqliteSource
from replicator_state import OutcomeState, ReplicatorDirectory
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Host, Shop, change, fill, shop

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline

__all__ = ["shop"]


def pipeline(shop: Shop) -> Pipeline:
    return build_pipeline(shop.document, host=Host())  # type: ignore[arg-type]


def ask(shop: Shop, command: str, *, alone: bool) -> str:
    """Ask, and wait for the outcome; its first line."""
    requests = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop").requests()
    request = requests.submit(command, {})
    if alone:
        carry_out_alone(pipeline(shop))
    wait_until(lambda: requests.outcome(request.request_id) is not None)
    outcome = requests.outcome(request.request_id)
    assert outcome is not None
    assert outcome.state is OutcomeState.DONE, outcome
    return outcome.lines[0]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def running(shop: Shop) -> Iterator[Progress]:
    """A run that goes on within the block and ends well."""
    stop, progress, errors = threading.Event(), Progress(), list[BaseException]()

    def work() -> None:
        try:
            run(pipeline(shop), stop=stop, progress=progress)
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield progress
    finally:
        stop.set()
        thread.join(120)
    assert not thread.is_alive()
    assert errors == []


def is_equal(shop: Shop) -> bool:
    try:
        shop.assert_equal()
    except (AssertionError, ValueError):
        return False
    return True


def applied() -> int:
    return sum(kept.commits for kept in list(in_memory_target.STORAGE.tables.values()))


def test_a_run_that_is_paused_waits_and_goes_on(shop: Shop) -> None:
    fill(shop)
    with running(shop) as progress:
        wait_until(lambda: progress.phase == "streaming" and is_equal(shop))
        assert "has to keep its log" in ask(shop, "pause", alone=False)
        wait_until(lambda: progress.phase == "paused")
        before = applied()
        change(shop)
        assert "already" in ask(shop, "pause", alone=False)
        time.sleep(1.0)
        assert applied() == before
        wait_until(lambda: shop.status()["phase"] == "paused")
        assert "`replicator resume NAME`" in progress.message
        assert "it goes on" in ask(shop, "resume", alone=False)
        wait_until(lambda: is_equal(shop))
        assert ask(shop, "resume", alone=False) == "it is not paused"
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        shop.run()
        shop.assert_equal()


def test_a_pause_outlives_runs_which_read_nothing_from_the_source(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.run()
    ask(shop, "pause", alone=True)
    change(shop)
    before = applied()
    with monkeypatch.context() as gone:
        for asked in ("latest_offset", "create_table_registry", "create_reader"):
            gone.setattr(SqliteSource, asked, lambda *_: pytest.fail("the source was read"))
        for _ in range(2):
            with pytest.raises(NeedsUserError, match=r"paused by .*replicator resume"):
                shop.run()
            with running(shop) as progress:
                wait_until(lambda: progress.phase == "paused")
    assert applied() == before
    with running(shop) as progress:
        wait_until(lambda: progress.phase == "paused")
        ask(shop, "resume", alone=False)
        wait_until(lambda: is_equal(shop))
    for number in range(3):
        shop.sql(f"INSERT INTO notes VALUES ('{number}')", f"ALTER TABLE customers ADD COLUMN c{number} TEXT")
        shop.run()
        shop.assert_equal()


def test_copies_end_when_it_is_paused_and_go_on_afterwards(shop: Shop, tmp_path: Path) -> None:
    fill(shop)
    slow = tmp_path / "slow"
    slow.touch()

    def fault(step: str, table: object) -> None:
        while slow.exists() and step in {"load", "chunk", "begin"}:
            time.sleep(0.05)

    in_memory_target.STORAGE.fault = fault
    with running(shop) as progress:
        wait_until(lambda: progress.phase == "snapshot")
        requests = ReplicatorDirectory(shop.document["offsetBasePath"], "default", "shop").requests()
        request = requests.submit("pause", {})
        wait_until(lambda: requests.outcome(request.request_id) is not None)
        slow.unlink()
        wait_until(lambda: progress.phase == "paused")
        before = {name: kept.loaded for name, kept in in_memory_target.STORAGE.tables.items()}
        time.sleep(0.5)
        assert {name: kept.loaded for name, kept in in_memory_target.STORAGE.tables.items()} == before
        ask(shop, "resume", alone=False)
        wait_until(lambda: progress.phase == "streaming" and is_equal(shop))
