"""Draws the states of a table and the ways between them, for ARCHITECTURE.md."""

from __future__ import annotations

from collections.abc import Iterable

from replicator_runtime.engine.lifecycle.transitions import TRANSITIONS, Cause, State, Transition
from replicator_runtime.engine.tables.table_state import TableState

_EVERY = "known"


def state_diagram() -> str:
    """A `stateDiagram-v2` of Mermaid.

    A cause that is allowed in every state of a known table is one arrow from the frame around them. What keeps the state
    is left out.
    """
    known = {transition.before for transition in TRANSITIONS} - {None}
    moving = [transition for transition in TRANSITIONS if transition.before != transition.after]
    shared = {(t.cause, t.after) for t in TRANSITIONS if known <= _states_before(t.cause, t.after)}
    single = [t for t in moving if (t.cause, t.after) not in shared]
    inside = [t for t in single if t.before is not None and t.after is not None]
    lines = ["stateDiagram-v2", f'    state "known to the run" as {_EVERY} {{']
    lines += [f"        {state}" for state in TableState if state in known]
    lines += [f"        {line}" for line in _arrows(inside)]
    lines += ["    }", *(f"    {state}" for state in TableState if state not in known)]
    lines += [f"    {line}" for line in _arrows(t for t in single if t not in inside)]
    for after in dict.fromkeys(t.after for t in moving):
        causes = dict.fromkeys(t.cause for t in moving if t.after == after and (t.cause, after) in shared)
        if causes:
            lines.append(f"    {_arrow(_EVERY, _name(after), causes)}")
    return "\n".join(lines)


def _states_before(cause: Cause, after: State) -> set[State]:
    return {t.before for t in TRANSITIONS if (t.cause, t.after) == (cause, after)}


def _arrows(transitions: Iterable[Transition]) -> list[str]:
    """One arrow for each pair of states, with all its causes."""
    causes: dict[tuple[State, State], dict[Cause, None]] = {}
    for transition in transitions:
        causes.setdefault((transition.before, transition.after), {})[transition.cause] = None
    return [_arrow(_name(before), _name(after), names) for (before, after), names in causes.items()]


def _arrow(before: str, after: str, causes: Iterable[Cause]) -> str:
    return f"{before} --> {after}: {', '.join(causes)}"


def _name(state: State) -> str:
    return "[*]" if state is None else state.value
