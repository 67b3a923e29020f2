"""The states of a table change only as the data of the transitions says, and only where it says."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_runtime import engine
from replicator_runtime.engine.lifecycle.state_diagram import state_diagram
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.lifecycle.transitions import TRANSITIONS, Cause, check
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import BugError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.lifecycle.transitions import State

ENGINE = Path(engine.__file__).parent
STATES: tuple[State, ...] = (None, *TableState)


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The folder (or the module's name, of those in none) and the tree of each module of the engine but the lifecycle's."""
    for path in sorted(ENGINE.rglob("*.py")):
        place = path.relative_to(ENGINE).with_suffix("").parts[0]
        if place != "lifecycle":
            yield place, ast.parse(path.read_text("utf-8"))


def callers() -> set[tuple[str, str]]:
    """Each method of a lifecycle that is called, with where."""
    return {
        (node.func.attr, place)
        for place, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if ast.unparse(node.func.value).endswith("lifecycle")
    }


def test_each_cause_is_a_method_of_the_lifecycle() -> None:
    assert [cause.name for cause in Cause if not callable(getattr(TableLifecycle, cause.name.lower(), None))] == []
    assert {transition.cause for transition in TRANSITIONS} == set(Cause)


def test_exactly_the_listed_parts_of_the_engine_cause_a_change() -> None:
    causes = {cause.name.lower() for cause in Cause}
    listed = {(t.cause.name.lower(), caller) for t in TRANSITIONS for caller in t.callers}
    assert {call for call in callers() if call[0] in causes} == listed


def test_no_other_module_sets_a_state() -> None:
    written = [
        (place, ast.unparse(node))
        for place, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == "state"
    ]
    assert written == []


def test_a_change_that_is_not_listed_is_refused() -> None:
    allowed = {(t.before, t.cause, t.after) for t in TRANSITIONS}
    refused = 0
    for before, cause, after in product(STATES, Cause, STATES):
        if (before, cause, after) in allowed:
            check(before, cause, after, "db.t")
            continue
        refused += 1
        with pytest.raises(BugError, match=r"RPL-9014.*db\.t"):
            check(before, cause, after, "db.t")
    assert refused


@pytest.mark.parametrize(
    ("before", "cause", "after"),
    [
        (TableState.PENDING, Cause.END_COPY, TableState.REPLICATING),
        (TableState.REPLICATING, Cause.BEGIN_COPY, TableState.SNAPSHOTTING),
        (TableState.SNAPSHOTTING, Cause.BEGIN_COPY, TableState.SNAPSHOTTING),
        (TableState.SNAPSHOTTING, Cause.CREATE, TableState.REPLICATING),
        (TableState.FAILING, Cause.END_COPY, TableState.REPLICATING),
        (None, Cause.FAIL, TableState.FAILING),
        (TableState.PAUSED, Cause.JOIN, TableState.REPLICATING),
    ],
)
def test_what_must_never_happen_is_not_listed(before: State, cause: Cause, after: State) -> None:
    with pytest.raises(BugError, match="RPL-9014"):
        check(before, cause, after, "db.t")


def test_every_state_that_a_table_can_reach_can_be_left() -> None:
    reached = {t.after for t in TRANSITIONS}
    assert reached - {t.before for t in TRANSITIONS if t.before != t.after} == set()
    assert reached == {None, *TableState}


def test_the_diagram_has_every_change_of_state() -> None:
    lines = [line.strip() for line in state_diagram().splitlines()]
    for transition in TRANSITIONS:
        if transition.before == transition.after:
            continue
        before, after = ("[*]" if s is None else s.value for s in (transition.before, transition.after))
        arrows = [line for line in lines if line.startswith((f"{before} --> {after}: ", f"known --> {after}: "))]
        assert any(transition.cause.value in line for line in arrows), transition
