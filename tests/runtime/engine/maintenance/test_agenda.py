"""What is due is found without asking for every table's times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from replicator_runtime.engine.maintenance.agenda import Agenda
from replicator_runtime.engine.maintenance.due_times import DueTimes
from replicator_sdk import MaintenanceTask, TableId
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from pathlib import Path

TASKS = (MaintenanceTask("compact", 600), MaintenanceTask("vacuum", 3600))
TABLES = [TableId("d", f"t{number}") for number in range(1000)]
START = 1_800_000_000.0


class Clocked:
    """An agenda, a clock, and how often a table's times were asked for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.asked = START, 0
        monkeypatch.setattr("replicator_runtime.engine.maintenance.due_times.time.time", lambda: self.now)
        directory = ReplicatorDirectory(str(folder), "default", "shop")
        self.times = DueTimes(directory.states())
        ask = self.times.due_at

        def counted(table: TableId, task: MaintenanceTask) -> float:
            self.asked += 1
            return ask(table, task)

        monkeypatch.setattr(self.times, "due_at", counted)
        self.agenda = Agenda(self.times, TASKS)

    def late(self, tables: list[TableId] | None = None) -> set[tuple[TableId, str]]:
        tables = TABLES if tables is None else tables
        return {(table, task.name) for _, (table, task) in self.agenda.late(tables, self.now)}

    def expected(self) -> set[tuple[TableId, str]]:
        ask = DueTimes.due_at
        return {(t, task.name) for t in TABLES for task in TASKS if ask(self.times, t, task) <= self.now}


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocked:
    return Clocked(tmp_path, monkeypatch)


def test_a_second_costs_no_look_at_every_table(clocked: Clocked) -> None:
    clocked.late()
    clocked.asked = 0
    for _ in range(50):
        clocked.now += 1
        assert clocked.late() == clocked.expected()
    assert clocked.asked == 0


def test_what_was_done_or_failed_is_due_at_its_new_time(clocked: Clocked) -> None:
    clocked.now += 30
    clocked.late()
    for _ in range(50):
        clocked.now += 40
        late = clocked.late()
        assert late == clocked.expected()
        for table, name in sorted(late, key=str)[:30]:
            task = next(task for task in TASKS if task.name == name)
            if int(table.table[1:]) % 2:
                clocked.times.done(table, name)
            else:
                clocked.times.failed(table, name, "no right")
            clocked.agenda.changed(table, task)


def test_a_clock_that_goes_back_is_followed(clocked: Clocked) -> None:
    clocked.late()
    clocked.now += 5000
    assert clocked.late()
    for table in TABLES:
        for task in TASKS:
            clocked.times.done(table, task.name)
            clocked.agenda.changed(table, task)
    clocked.now -= 100_000
    assert clocked.late() == set()
    clocked.now += 3600
    assert clocked.late() == clocked.expected() == {(t, task.name) for t in TABLES for task in TASKS}


def test_tables_that_come_and_go_are_followed(clocked: Clocked) -> None:
    clocked.late(TABLES[:10])
    clocked.now += 3600
    assert {table for table, _ in clocked.late(TABLES[:10])} == set(TABLES[:10])
    assert {table for table, _ in clocked.late(TABLES[:5])} == set(TABLES[:5])
    clocked.late(TABLES[:20])
    clocked.now += 3600
    assert {table for table, _ in clocked.late(TABLES[:20])} == set(TABLES[:20])
