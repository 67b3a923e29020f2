"""A target that fails in any way, and batches that are cut elsewhere when they are tried again: each change is archived once, in order."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from replicator_runtime.engine.run_state.run import Limits, Run
from replicator_sdk.errors import DataError, ReplicatorError, RetryableError
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.archive.rebuilt import entries_of
from tests.runtime.engine.archive.test_archive import archived, assert_archived
from tests.runtime.engine.stream.test_paused_tables import alone
from tests.runtime.engine.test_run import Shop, shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from replicator_sdk import TableId

__all__ = ["shop"]
_STEPS = frozenset({"before", "after", "progress"})
ERRORS: tuple[Callable[[str], Exception], ...] = (
    lambda table: RetryableError("the table is locked", code="RPL-4001"),
    lambda table: RetryableError("the table is locked", code="RPL-4001", table=table),
    lambda table: ConnectionResetError("the answer was lost"),
    lambda table: RuntimeError("another thing"),
)
"""What is known after none of them is whether the target has the changes."""


@dataclass
class History:
    """Changes that were made at the source, each of them another one.

    Attributes:
        made: By table, in order: operation, and the row after it (before it, for a DELETE).
    """

    shop: Shop
    chance: random.Random
    made: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {"customers": [], "notes": []})
    number: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def go_on(self, transactions: int) -> None:
        for _ in range(transactions):
            with self.lock:  # tables are applied at once
                self.shop.sql(*(self._next() for _ in range(self.chance.randint(1, 4))))

    def _next(self) -> str:
        self.number += 1
        number, made = self.number, self.made
        kind = self.chance.randrange(3)
        if kind == 0:
            made["notes"].append(("c", f"n{number}"))
            return f"INSERT INTO notes VALUES ('n{number}')"
        if kind == 1 and (keys := self._keys()):
            key = self.chance.choice(keys)
            made["customers"].append(("u", key, f"n{number}"))
            return f"UPDATE customers SET name = 'n{number}' WHERE id = {key}"
        if kind == 2 and (keys := self._keys()):
            key = self.chance.choice(keys)
            made["customers"].append(("d", key))
            return f"DELETE FROM customers WHERE id = {key}"
        made["customers"].append(("c", number, f"n{number}"))
        return f"INSERT INTO customers VALUES ({number}, 'n{number}')"

    def _keys(self) -> list[int]:
        gone = {change[1] for change in self.made["customers"] if change[0] == "d"}
        return [change[1] for change in self.made["customers"] if change[0] == "c" and change[1] not in gone]


def archived_changes(archive: Path) -> dict[str, list[tuple[Any, ...]]]:
    """As `History.made`, by the archive."""
    found: dict[str, list[tuple[Any, ...]]] = {"customers": [], "notes": []}
    for entry in entries_of(archive):
        for name in entry["files"] if entry["kind"] == "changes" else ():
            for row in pq.read_table(archive / name, partitioning=None).to_pylist():
                is_delete = row["operation"] == "d"
                values = [row["before"]["id"]] if is_delete else list(row["after"].values())
                found[entry["table"]["table"]].append((row["operation"], *values))
    return found


@pytest.fixture
def cut_at_random(monkeypatch: pytest.MonkeyPatch) -> random.Random:
    """Each attempt, and each drain of a lane, has batches of another size."""
    chance = random.Random(0)

    def limits(run: Run) -> Limits:
        return replace(Limits.of(run.config), max_rows=chance.choice([1, 2, 3, 5, 8, 100]))

    monkeypatch.setattr(Run, "limits", property(limits))
    return chance


@pytest.mark.parametrize("lanes", [False, True], ids=["tables-wait", "failing-tables-get-lanes"])
@pytest.mark.parametrize("seed", range(2))
def test_each_change_is_archived_once_and_in_order_whatever_the_target_raises(
    shop: Shop, cut_at_random: random.Random, seed: int, lanes: bool
) -> None:
    cut_at_random.seed(seed)
    chance, left, raised = random.Random(seed), 0, 0
    history, archive = History(shop, chance), archived(shop, flushSeconds=chance.choice([0, 60]))
    shop.document["batch"] = {"maxIntervalSeconds": 0.01}
    shop.document["retries"] = {"maxDurationSeconds": 60, "delaySeconds": 0.01}
    if lanes:
        shop.document["failingTables"] = {"laneAfterMinutes": 0.000001}

    def fault(at: str, where: TableId) -> None:
        nonlocal left, raised
        if left and at in _STEPS and chance.random() < 0.4:
            left, raised = left - 1, raised + 1
            history.go_on(chance.randrange(3))  # so that what is read again has other ends
            if at == "before" and chance.random() < 0.2:
                raise DataError("a value does not fit", code="RPL-5402", table=str(where))
            raise chance.choice(ERRORS)(str(where))

    shop.run()
    in_memory_target.STORAGE.fault = fault
    for number in range(3):
        history.go_on(12)
        left = chance.randrange(1, 6)
        if number == 1:
            alone(shop, "pause", "customers")
        _run(shop)
        history.go_on(12)
        if number == 1:
            alone(shop, "resume", "customers")
        _run(shop)
    left = 0
    shop.run()
    assert raised
    assert_archived(shop, archive)
    assert archived_changes(archive) == history.made


def _run(shop: Shop) -> None:
    try:
        shop.run()
    except ReplicatorError as error:  # that of a table which still fails at the end
        if error.code not in {"RPL-4001", "RPL-5402"}:
            raise
