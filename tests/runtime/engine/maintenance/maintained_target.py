"""Gives the targets of these tests maintenance tasks, and notes each step."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from replicator_sdk import AppliesHeld, MaintenanceReport, MaintenanceTask

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from replicator_sdk import DeltaTarget, DeltaTargetContext, TableId


class Maintained:
    """The maintenance of a target's class, replaced for one test.

    Attributes:
        steps: The tables of all steps, in order.
        met: Tables that were applied while a step held them.
        beside: Tables that were applied during a step of theirs, whether held or not.
        step: What a step does beside being noted.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        target: type[DeltaTarget],
        *,
        every: float = 1.0,
        holds: AppliesHeld = AppliesHeld.TABLE,
    ) -> None:
        self.steps: list[str] = []
        self.met: set[str] = set()
        self.beside: set[str] = set()
        self.step: Callable[[TableId], Any] = lambda table: None
        self._held: Counter[str] = Counter()
        self._applying: Counter[str] = Counter()
        self._holds = holds
        patch.setattr(target, "maintenance_tasks", (MaintenanceTask("tidy", every, holds),))
        patch.setattr(target, "maintain_table", self._maintain)

    def watch(self, patch: pytest.MonkeyPatch, consumer: type, apply: str, seconds: float = 0.05) -> None:
        """Note which tables `apply` is given while a step holds them; it takes `seconds` longer."""
        true_apply = getattr(consumer, apply)

        def watched(consumer: Any, changes: Any) -> Any:
            tables = [t.table for t in changes.tables] if hasattr(changes, "tables") else [changes.table.table]
            self._applying.update(tables)
            self._look()
            try:
                time.sleep(seconds)
                return true_apply(consumer, changes)
            finally:
                self._applying.subtract(tables)

        patch.setattr(consumer, apply, watched)

    def _maintain(self, context: DeltaTargetContext, task: MaintenanceTask, table: TableId) -> MaintenanceReport:
        self._held[table.table] += 1
        self._look()
        try:
            self.step(table)
        finally:
            self._held[table.table] -= 1
        self.steps.append(table.table)
        return MaintenanceReport()

    def _look(self) -> None:
        applied = {name for name, count in self._applying.items() if count > 0}
        held = {name for name, count in self._held.items() if count > 0}
        self.beside |= applied & held
        if self._holds is not AppliesHeld.NONE:
            self.met |= applied & held if self._holds is AppliesHeld.TABLE else (applied if held else set())
