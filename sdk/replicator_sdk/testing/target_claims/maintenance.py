"""Claims about maintenance: its steps change nothing that readers see, wherever they end, and are those of the newest run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

import pytest

from replicator_sdk.discovery.maintenance import AppliesHeld, MaintenanceTask
from replicator_sdk.discovery.table_storage import TableStorage
from replicator_sdk.errors import FencedError
from replicator_sdk.schema import TableId
from replicator_sdk.target import BatchConsumer, TableProgress
from replicator_sdk.testing.contexts import CountingMetrics
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.failures.interruption import Place, interrupted_at, lines_of
from replicator_sdk.testing.histories.history import History, Step, load_case
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer, target_context
from replicator_sdk.testing.target_script import Flush, ScriptBuilder, apply

_Progress = Mapping[TableId, TableProgress]
_MOST_STEPS = 100
_SOME = 4
_MOST_CHANGES = 40


def _history(*, keyless: bool) -> History:
    """Transactions that each add, change and remove rows of a table with a key, and of one without."""
    tables = dict(load_case("seed_with_primary_key").tables)
    if keyless:
        tables["words"] = load_case("keyless_one_of_equal_rows").tables["words"]
    return History("maintained", "", frozenset(), tables, tuple(_transaction(n, keyless=keyless) for n in range(100)))


def _transaction(number: int, *, keyless: bool) -> tuple[Step, ...]:
    rows = [{"id": 10 * number + i, "name": f"n{i}"} for i in (3, 1, 2)]
    steps = [Step("insert", "customers", {"rows": rows})]
    if number:
        former = {"where": {"id": 10 * number - 9}}
        steps.append(Step("update", "customers", {**former, "set": {"name": "changed"}}))
        steps.append(Step("delete", "customers", {"where": {"id": 10 * number - 8}}))
    if keyless:
        steps.append(Step("insert", "words", {"rows": [{"word": "z"}, {"word": "a"}, {"word": "a"}]}))
    return tuple(steps)


class _Maintained:
    """Tables that are changed transaction by transaction, and maintained in between.

    Attributes:
        flush: What was applied last.
    """

    def __init__(self, system: TargetSystem, builder: ScriptBuilder, history: History, epoch: int) -> None:
        self.flush: Flush = builder.flush([])
        self._system, self._builder, self._epoch = system, builder, epoch
        self._left = iter(history.transactions)
        with consumer(system, epoch=epoch) as one:
            for event in builder.create():
                one.apply_ddl(event)

    def change(self, count: int = 1) -> None:
        """Apply the next transactions, each as a flush of its own."""
        with consumer(self._system, epoch=self._epoch) as one:
            for _ in range(count):
                self.flush = self._builder.flush([next(self._left)])
                apply(one, self.flush)


class MaintenanceClaims(TargetClaims):
    """What targets promise that have `maintenance_tasks`."""

    step_seconds: ClassVar[float] = 60.0
    """How long a step of maintenance may take that is asked to stop; one that is not takes a few seconds as well."""

    fences_maintenance: ClassVar[bool] = True
    """A step of maintenance by a lower epoch raises FencedError. False where no step touches what a run needs."""

    def test_maintenance_changes_nothing_that_readers_see(self, system: TargetSystem) -> None:
        """No step changes rows or progress, each task comes to its end, also when it is done again, and changes follow."""
        for task in self._tasks(system):
            life = self._maintained(system, f"{task.name}_")
            life.change(_SOME)
            self._finish(system, task, life)
            self._finish(system, task, life)
            life.change()
            self._compare(system, life.flush.tables)
            self._finish(system, task, life)

    def test_an_interrupted_step_of_maintenance_does_no_harm(self, system: TargetSystem) -> None:
        """Interrupted at any line of the plugin, a step leaves rows and progress as they were, and changes and steps follow."""
        for task in self._tasks(system):
            life = self._maintained(system, f"{task.name}_")
            for place in self._places_of_steps(system, task):
                life.change()
                self._interrupt_step(system, task, life, place)
            life.change()
            self._finish(system, task, life)

    def _places_of_steps(self, system: TargetSystem, task: MaintenanceTask) -> list[Place]:
        """Some of the lines that the steps of a task execute."""
        life = self._maintained(system, f"whole_{task.name}_")
        life.change(_SOME)
        found = lines_of(type(system.target), partial(self._finish, system, task, life))
        count = min(len(found), self.interruptions)
        return [found[i * len(found) // count] for i in range(count)]

    def _interrupt_step(self, system: TargetSystem, task: MaintenanceTask, life: _Maintained, place: Place) -> None:
        before = self._all_progress(system, life)
        for table in life.flush.tables:
            context = target_context(system, 1)
            interrupted_at(type(system.target), place, partial(system.target.maintain_table, context, task, table))
            at_step(f"a step of {task.name} of {table}, interrupted at {place[0]}:{place[1]}")
            self._compare(system, life.flush.tables)
        self._assert_progress(system, life, before)

    def test_a_step_of_an_older_run_is_fenced(self, system: TargetSystem) -> None:
        """A step of maintenance by a lower epoch than the table's is refused with FencedError and changes nothing."""
        self._need_fence()
        for task in self._tasks(system):
            life = self._maintained(system, f"{task.name}_", epoch=2)
            life.change(_SOME)
            before = self._all_progress(system, life, epoch=2)
            for table in life.flush.tables:
                at_step(f"a step of {task.name} of {table} by epoch 1 after epoch 2 has written")
                expected = pytest.raises(FencedError) if self.fences_maintenance else suppress(FencedError)
                with comparing("the error of an older run and FencedError"), expected:
                    system.target.maintain_table(target_context(system, 1), task, table)
            self._compare(system, life.flush.tables)
            self._assert_progress(system, life, before, epoch=2)

    def test_a_step_ends_when_the_run_is_to_stop(self, system: TargetSystem) -> None:
        """A step that is asked to stop ends within `step_seconds`, changes nothing that readers see, and is done later."""
        for task in self._tasks(system):
            life = self._maintained(system, f"{task.name}_")
            life.change(_SOME)
            for table in life.flush.tables:
                context = target_context(system, 1)
                context.stopping = True
                at_step(f"a step of {task.name} of {table} while the run is to stop")
                _Thread(partial(system.target.maintain_table, context, task, table)).end(self.step_seconds)
            self._compare(system, life.flush.tables)
            self._finish(system, task, life)

    def test_maintenance_of_a_missing_table_makes_none(self, system: TargetSystem) -> None:
        """A step for a table that is not there does nothing: it makes no table, and raises no error."""
        table = system.table_id("never written")
        for task in self._tasks(system):
            at_step(f"a step of {task.name} of {table}, which is not there")
            with comparing("the report on a table that is not there and a finished task"):
                assert system.target.maintain_table(target_context(system, 1), task, table).is_finished
            with consumer(system) as one, comparing(f"the progress of {table} and None"):
                assert isinstance(one, BatchConsumer)
                assert one.progress(table) is None

    def test_a_table_is_maintained_beside_applies_of_another(self, system: TargetSystem) -> None:
        """A step of a task that holds applies of its own table only, beside applies of another table, harms neither."""
        for task in self._tasks(system):
            if task.holds is AppliesHeld.TABLE:
                still, busy = (
                    self._maintained(system, f"{task.name}_still_"),
                    self._maintained(system, f"{task.name}_busy_"),
                )
                still.change(_SOME)
                thread = _Thread(partial(self._finish, system, task, still))
                busy.change(_SOME)
                for _ in range(_MOST_CHANGES):
                    if thread.is_at_work:
                        busy.change()
                thread.end(self.step_seconds * _SOME)
                self._compare(system, still.flush.tables)
                self._compare(system, busy.flush.tables)

    def test_a_table_is_maintained_beside_applies_of_its_own(self, system: TargetSystem) -> None:
        """Steps of a task that holds no applies, beside applies of the same table, harm neither."""
        for task in self._tasks(system):
            if task.holds is AppliesHeld.NONE:
                life = self._maintained(system, f"{task.name}_beside_")
                life.change(_SOME)
                tables = list(life.flush.tables)
                threads = [_Thread(partial(self._repeat, system, task, table)) for table in tables]
                for _ in range(_MOST_CHANGES):
                    if any(thread.is_at_work for thread in threads):
                        life.change()
                for thread in threads:
                    thread.end(self.step_seconds * _SOME)
                self._compare(system, life.flush.tables)
                life.change()
                self._finish(system, task, life)

    def test_what_is_said_of_a_tables_storage_holds(self, system: TargetSystem) -> None:
        """A target that says what its tables consist of (`Metrics.stored`) says it after each commit; it has files where it has rows, and rows that are not deleted for all that readers see."""
        self._need_batches(system)
        history, metrics = _history(keyless=self.supports_keyless), CountingMetrics()
        builder = self._builder(system, history, prefix="stored_")
        with consumer(system, metrics=metrics) as one:
            self._create(one, builder)
            for transaction in history.transactions[:_SOME]:
                metrics.storage.clear()
                flush = builder.flush([transaction])
                apply(one, flush)
                if not metrics.storage:
                    pytest.skip("the target does not say what its tables consist of")
                for name, table in flush.tables.items():
                    at_step(f"what is said of {name} after {flush.name}")
                    _check(metrics.storage.get(name), len(table.rows))

    def _repeat(self, system: TargetSystem, task: MaintenanceTask, table: TableId) -> None:
        for _ in range(_SOME):
            system.target.maintain_table(target_context(system, 1), task, table)

    def _tasks(self, system: TargetSystem) -> Sequence[MaintenanceTask]:
        self._need_batches(system)
        tasks = system.target.maintenance_tasks
        if not tasks:
            pytest.skip("the target has no tasks of maintenance")
        assert len({task.name for task in tasks}) == len(tasks)
        return tasks

    def _maintained(self, system: TargetSystem, prefix: str, *, epoch: int = 1) -> _Maintained:
        history = _history(keyless=self.supports_keyless)
        return _Maintained(system, self._builder(system, history, prefix=prefix, epoch=epoch), history, epoch)

    def _finish(self, system: TargetSystem, task: MaintenanceTask, life: _Maintained) -> None:
        """Do all steps of a task for all tables; rows and progress are compared after each."""
        before = self._all_progress(system, life)
        for table in life.flush.tables:
            for number in range(1, _MOST_STEPS + 2):
                at_step(f"step {number} of {task.name} of {table}")
                with comparing(f"the number of steps of {task.name} without a change of {table} and {_MOST_STEPS}"):
                    assert number <= _MOST_STEPS
                report = system.target.maintain_table(target_context(system, 1), task, table)
                self._compare(system, {table: life.flush.tables[table]})
                self._assert_progress(system, life, before)
                if report.is_finished:
                    break

    def _all_progress(self, system: TargetSystem, life: _Maintained, *, epoch: int = 1) -> _Progress:
        with consumer(system, epoch=epoch) as one:
            return {name: self._progress(one, table) for name, table in life.flush.tables.items()}

    def _assert_progress(self, system: TargetSystem, life: _Maintained, before: _Progress, *, epoch: int = 1) -> None:
        with comparing("the progress of the tables before and after a step of maintenance"):
            assert self._all_progress(system, life, epoch=epoch) == before


def _check(said: TableStorage | None, rows: int) -> None:
    """Compare what is said of a table that has been changed with how many rows readers see.

    Raises:
        AssertionError: It cannot be so.
    """
    with comparing("what is said of the table's storage and nothing, after a commit"):
        assert said is not None
    numbers = (said.files, said.nbytes, said.rows, said.deleted_rows)
    with comparing("what is said of the table's storage and 0"):
        assert all(number is None or number >= 0 for number in numbers)
    with comparing("whether files are said of a table with rows, and their bytes"):
        assert rows == 0 or 0 not in (said.files, said.nbytes)
    if said.rows is not None:
        with comparing("the rows that are said to be stored and not deleted, and those that readers see"):
            assert said.rows - (said.deleted_rows or 0) >= rows


class _Thread:
    """A call in a thread that does not hold the end of the tests."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call, self._error = call, list[BaseException]()
        self._thread = threading.Thread(target=self._run, name="conformance-maintenance", daemon=True)
        self._thread.start()

    @property
    def is_at_work(self) -> bool:
        """Whether the call has not returned."""
        return self._thread.is_alive()

    def end(self, seconds: float) -> None:
        """Wait for its end; raises what it raised, and AssertionError when it has not ended in time."""
        self._thread.join(seconds)
        with comparing(f"the time that maintenance takes and {seconds:g} seconds"):
            assert not self._thread.is_alive()
        if self._error:
            raise self._error[0]

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self._error.append(error)
