"""Random histories that a real database accepts, for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.testing.histories.history import History, Step, column

_KEYS = st.integers(0, 6)
_TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "it's", "ü😀"]))
_NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))


def keyed_schema() -> TableSchema:
    """The table with a key that random histories use."""
    columns = (column("id", "int64 not null"), column("name", "string"), column("number", "int64"))
    return TableSchema(TableId("history", "keyed"), columns, ("id",))


def keyless_schema() -> TableSchema:
    """The table without a key that random histories use."""
    return TableSchema(TableId("history", "keyless"), (column("name", "string"), column("number", "int64")))


@st.composite
def random_history(
    draw: st.DrawFn,
    *,
    max_transactions: int = 6,
    max_steps: int = 6,
    keyless: bool = True,
    ddl: bool = False,
    unchanged: bool = True,
) -> History:
    """A history of one table with a key and, with `keyless`, one without.

    Inserts only take keys that are free and updates only move to free keys, as any database demands; keys are few, so
    that they are reused, moved in chains and deleted again often. With `ddl`, columns are added in between; with
    `unchanged`, some updates do not send all columns.
    """
    state: dict[str, Any] = {"keys": set(), "added": 0, "unchanged": unchanged}
    transactions = []
    for _ in range(draw(st.integers(1, max_transactions))):
        kinds = ["keyed"] * 3 + ["keyless"] * keyless + ["add_column"] * ddl
        chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=max_steps))
        transactions.append(tuple(_step(draw, kind, state) for kind in chosen))
    tables = {"keyed": keyed_schema()} | ({"keyless": keyless_schema()} if keyless else {})
    return History("random", "Any history arrives.", frozenset(), tables, tuple(transactions))


def _step(draw: st.DrawFn, kind: str, state: dict[str, Any]) -> Step:
    if kind == "add_column":
        state["added"] += 1
        default = draw(st.one_of(st.none(), st.integers(0, 9)))
        return Step(kind, "keyed", {"name": f"extra{state['added']}", "type": "int64", "default": default})
    return _keyed(draw, state["keys"], unchanged=state["unchanged"]) if kind == "keyed" else _keyless(draw)


def _keyed(draw: st.DrawFn, keys: set[int], *, unchanged: bool) -> Step:
    key = draw(_KEYS)
    if key not in keys:
        keys.add(key)
        return Step("insert", "keyed", {"rows": [{"id": key, "name": draw(_TEXTS), "number": draw(_NUMBERS)}]})
    action = draw(st.sampled_from(["delete", "name", "number", "move", "move"]))
    where = {"id": key}
    if action == "delete":
        keys.discard(key)
        return Step("delete", "keyed", {"where": where})
    if action == "move":
        to = draw(_KEYS)
        if to not in keys:
            keys.discard(key)
            keys.add(to)
            unsent = draw(st.sampled_from([[], ["name"], ["name", "number"]])) if unchanged else []
            return Step("update", "keyed", {"where": where, "set": {"id": to}, "unchanged": unsent})
        action = "name"
    value = draw(_TEXTS if action == "name" else _NUMBERS)
    other = "number" if action == "name" else "name"
    unsent = draw(st.sampled_from([[], [other]])) if unchanged else []
    return Step("update", "keyed", {"where": where, "set": {action: value}, "unchanged": unsent})


def _keyless(draw: st.DrawFn) -> Step:
    name = draw(_TEXTS)
    action = draw(st.sampled_from(["insert", "insert", "delete", "update"]))
    if action == "insert":
        row = {"name": name, "number": draw(st.integers(0, 1))}
        return Step("insert", "keyless", {"rows": [row] * draw(st.integers(1, 3))})
    if action == "delete":
        return Step("delete", "keyless", {"where": {"name": name}})
    return Step("update", "keyless", {"where": {"name": name}, "set": {"name": draw(_TEXTS)}})
