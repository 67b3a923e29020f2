"""The lag is unknown until reading has come to where the source's log ended when the attempt began."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.run_state.progress import Progress
from replicator_source_sqlite.streaming.reader import SqliteReader
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Shop, _wait, fill

if TYPE_CHECKING:
    from pathlib import Path


def test_the_lag_is_unknown_before_the_reader_has_delivered_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    shop = Shop(tmp_path)
    fill(shop)
    shop.run()
    shop.sql("INSERT INTO notes (text) VALUES ('more')")
    may_read, original = threading.Event(), SqliteReader.run

    def held(self: SqliteReader) -> None:
        may_read.wait(120)
        original(self)

    monkeypatch.setattr(SqliteReader, "run", held)
    stop, progress = threading.Event(), Progress()
    reported, read = threading.Event(), progress.read

    def noted(*args: object) -> None:
        read(*args)  # type: ignore[arg-type]
        reported.set()

    monkeypatch.setattr(progress, "read", noted)
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        assert reported.wait(120)
        before = progress.snapshot()
        may_read.set()
        _wait(lambda: progress.snapshot().current_at is not None)
        after = progress.snapshot()
    finally:
        may_read.set()
        stop.set()
        thread.join(120)
    assert (before.phase, before.lag_seconds, before.current_at) == ("streaming", None, None)
    assert {table.lag_seconds for table in before.tables} == {None}
    assert after.lag_seconds == 0
    assert {table.lag_seconds for table in after.tables} == {0}
    shop.assert_equal()


def test_the_lag_of_an_idle_source_is_known_at_once(tmp_path: Path) -> None:
    in_memory_target.STORAGE = in_memory_target.TargetStorage()
    shop = Shop(tmp_path)
    fill(shop)
    shop.run()
    stop, progress = threading.Event(), Progress()
    thread = threading.Thread(target=lambda: shop.run(until_current=False, stop=stop, progress=progress))
    thread.start()
    try:
        _wait(lambda: progress.snapshot().lag_seconds == 0)
    finally:
        stop.set()
        thread.join(120)
