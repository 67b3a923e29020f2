"""Makes a failing history small: leaves out transactions, steps and rows as long as it still fails in the same way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from replicator_sdk.schema import TableId
from replicator_sdk.testing.failures.explained import step_kept
from replicator_sdk.testing.histories.history import History, Step
from replicator_sdk.testing.histories.reference import ReferenceMismatchError
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.simulate import Simulator

TRIES = 60
SECONDS = 20.0
_NO_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception)


def check_history(history: History, check: Callable[[History, str], None]) -> None:
    """Run a check on a history; when it fails, its error has a note with the smallest history found that fails as well.

    Args:
        history: What to check.
        check: Gets a history and a prefix for the names of its tables, another one at each call.

    Raises:
        BaseException: What the check raised.
    """
    try:
        check(history, "")
    except _NO_FAILURES:
        raise
    except (Exception, pytest.fail.Exception) as error:
        kind, names = type(error), iter(range(1_000_000))

        def fails(smaller: History) -> bool:
            if not can_happen(smaller):
                return False
            try:
                check(smaller, f"s{next(names)}_")
            except BaseException as other:  # noqa: BLE001 - the first error is the one that is raised
                return type(other) is kind
            return False

        with step_kept():
            error.add_note(f"smallest history: {as_json(smallest(history, fails))}")
        raise


def can_happen(history: History) -> bool:
    """Whether a database accepts it: no step needs a table, a column or a free key that a step left out would have made."""
    simulator = Simulator(history.schemas(lambda name: TableId("history", name)))
    try:
        for steps in history.transactions:
            for step in steps:
                simulator.execute(step, MemoryOffset(0))
    except (LookupError, ValueError, ReferenceMismatchError):
        return False
    return True


def smallest(history: History, fails: Callable[[History], bool]) -> History:
    """The smallest history found that still fails, within `TRIES` tries and about `SECONDS` seconds.

    Args:
        history: One that fails.
        fails: Whether another one fails in the same way.
    """
    tries, deadline = TRIES, time.monotonic() + SECONDS
    again = True
    while again:
        again = False
        for smaller in _smaller(history):
            if tries == 0 or time.monotonic() > deadline:
                return history
            tries -= 1
            if fails(smaller):
                history, again = smaller, True
                break
    return history


def as_json(history: History) -> str:
    """Its transactions as in a case file."""
    return json.dumps([[json.loads(str(step)) for step in steps] for steps in history.transactions], ensure_ascii=False)


def _smaller(history: History) -> Iterator[History]:
    """Histories without one transaction, then without one step, then without one row; later ones are left out first."""
    all_of_them = history.transactions
    for i in reversed(range(len(all_of_them))):
        if len(all_of_them) > 1:
            yield replace(history, transactions=all_of_them[:i] + all_of_them[i + 1 :])
    for i, steps in enumerate(all_of_them):
        for j in reversed(range(len(steps))):
            if len(steps) > 1:
                yield _with(history, i, steps[:j] + steps[j + 1 :])
    for i, steps in enumerate(all_of_them):
        for j, step in enumerate(steps):
            for rows in _fewer_rows(step):
                yield _with(history, i, (*steps[:j], Step(step.kind, step.table, {"rows": rows}), *steps[j + 1 :]))


def _with(history: History, index: int, steps: tuple[Step, ...]) -> History:
    before, after = history.transactions[:index], history.transactions[index + 1 :]
    return replace(history, transactions=(*before, steps, *after))


def _fewer_rows(step: Step) -> Iterator[list[object]]:
    rows = list(step.facts.get("rows", ())) if step.kind == "insert" else []
    for i in reversed(range(len(rows))):
        if len(rows) > 1:
            yield rows[:i] + rows[i + 1 :]
