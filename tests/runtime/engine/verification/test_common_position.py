"""A version of the target is taken once it has all that the source had; how long that may take is bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from replicator_runtime.engine.verification import common_position
from replicator_runtime.engine.verification.common_position import pin
from replicator_runtime.engine.verification.reading import Reading
from replicator_sdk import (
    Column,
    NumberOffset,
    Offset,
    Position,
    TableId,
    TableProgress,
    TableReader,
    TableSchema,
    TableVersion,
)
from replicator_sdk.datatype import INT64
from replicator_sdk.errors import RetryableError

SCHEMA = TableSchema(TableId("shop", "orders"), (Column("id", INT64),), ("id",))


class Replicator:
    """What is stored of one: its saved offset, a step further each time that one looks."""

    def __init__(self, *saved: int | None, ended: bool = False) -> None:
        self.stop = threading.Event()
        self._saved = iter(saved)
        self._last: int | None = None
        self._ended = ended

    def saved_offset(self) -> Offset | None:
        self._last = next(self._saved, self._last)
        return None if self._last is None else NumberOffset(self._last)

    def has_ended(self) -> bool:
        return self._ended

    def pause(self, seconds: float) -> None:
        assert seconds > 0


class Target(TableReader):
    """A table that is a step further each time that one looks."""

    def __init__(self, *positions: Position) -> None:
        self._positions: Iterator[Position] = iter(positions)
        self._last = Position(NumberOffset(0))

    def progress(self, table: TableId) -> TableProgress:
        self._last = next(self._positions, self._last)
        return TableProgress(1, 1, self._last)

    def open(self, schema: TableSchema) -> TableVersion:
        return TableVersion("7", TableProgress(1, 1, self._last), schema.arrow, cast("Any", None))


def at(number: int, after: int = 0) -> Position:
    return Position(NumberOffset(number), after)


def pinned(
    replicator: Replicator, target: Target, timeout: float = 60, check: Callable[[], None] = lambda: None
) -> common_position.Pinned:
    return pin(cast("Reading", replicator), target, SCHEMA, NumberOffset(5), timeout, check)


def test_the_saved_offset_says_that_the_target_has_everything() -> None:
    found = pinned(Replicator(None, 3, 5), Target(at(2)))
    assert (found.reached, found.holds_no_more) == (True, True)


def test_the_table_itself_may_be_further_than_the_saved_offset() -> None:
    found = pinned(Replicator(3), Target(at(2), at(4), at(6)))
    assert (found.reached, found.holds_no_more) == (True, False)


def test_a_table_at_the_very_position_holds_no_later_change() -> None:
    assert pinned(Replicator(3), Target(at(5))).holds_no_more
    assert not pinned(Replicator(3), Target(at(5, after=1))).holds_no_more


def test_without_a_run_the_newest_version_is_taken_at_once() -> None:
    found = pinned(Replicator(3, ended=True), Target(at(2)))
    assert (found.reached, found.holds_no_more) == (False, False)


def test_a_run_that_does_not_come_there_in_time_is_reported() -> None:
    with pytest.raises(RetryableError) as raised:
        pinned(Replicator(3), Target(at(2)), timeout=0)
    assert raised.value.code == "RPL-1363"


def test_a_version_from_before_a_rewind_was_finished_is_not_taken() -> None:
    """The offset was at the position, then both went back, then both came there again."""
    found = pinned(Replicator(6, 4, 4, 6), Target(at(5)))
    assert (found.reached, found.version.progress.position) == (True, at(5))


def test_the_table_is_looked_at_after_the_saved_offset_and_before_its_version_is_taken() -> None:
    """A table may be paused once the offset was read, and be resumed whole before the version is taken; not the other way round."""
    steps: list[str] = []

    class Noting(Replicator):
        def saved_offset(self) -> Offset | None:
            steps.append("offset")
            return super().saved_offset()

    class Opened(Target):
        def open(self, schema: TableSchema) -> TableVersion:
            steps.append("version")
            return super().open(schema)

    pinned(Noting(5), Opened(at(2)), check=lambda: steps.append("table"))
    assert steps[:4] == ["offset", "table", "version", "table"]


def test_a_comparison_that_is_to_end_waits_no_longer() -> None:
    replicator = Replicator(3)
    replicator.stop.set()
    with pytest.raises(RetryableError) as raised:
        pinned(replicator, Target(at(2)))
    assert raised.value.code == common_position.STOPPED
