"""Histories: what an application does to its tables, as data.

A case file in `cases/` is JSON:

* `claim`: what holds when the case passes, in one sentence; `source` (optional): the document it is taken from.
* `needs`: capabilities of the suite without which the case is skipped.
* `tables`: name → `columns` (name → standard type, followed by ` not null` where it is so) and `key`.
* `transactions`: lists of steps. A step's first key is its kind, with the table's name:
  `{"insert": T, "rows": [{…}, …]}`, `{"update": T, "where": {…}, "set": {…}, "unchanged": […], "limit": n}`,
  `{"delete": T, "where": {…}, "limit": n}`, `{"truncate": T}`,
  `{"add_column": T, "name": c, "type": t, "default": v}`, `{"drop_column": T, "name": c}`,
  `{"rename_column": T, "name": c, "to": d}`, `{"rename_columns": T, "to": {c: d, …}}` for several columns at once,
`{"retype_column": T, "name": c, "type": t}`, `{"change_key": T, "key": [c, …]}`, `{"drop_table": T}`,
`{"create_table": T, "columns": {…}, "key": […]}` for a table that was dropped before.

`where` compares null-safely and means every row that fits, at most `limit` of them. `unchanged` lists columns that a log
which need not send unchanged values leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from replicator_sdk.datatype import parse_type
from replicator_sdk.schema import Column, TableId, TableSchema

KINDS = (
    *("insert", "update", "delete", "truncate", "add_column", "drop_column", "rename_column", "rename_columns"),
    *("retype_column", "change_key", "drop_table", "create_table"),
)


@dataclass(frozen=True)
class Step:
    """One statement.

    Attributes:
        kind: One of `KINDS`.
        table: The table's name in the history.
        facts: The other keys of its JSON form.
    """

    kind: str
    table: str
    facts: Mapping[str, Any]

    @property
    def is_ddl(self) -> bool:
        """Whether it changes structure (or empties a table, which travels the same way)."""
        return self.kind not in ("insert", "update", "delete")

    def __str__(self) -> str:
        return json.dumps({self.kind: self.table, **self.facts}, default=str, ensure_ascii=False)


@dataclass(frozen=True)
class History:
    """Tables and what happens to them, transaction by transaction.

    Attributes:
        name: The case's name.
        claim: What holds when it passes.
        needs: Names of capabilities.
        tables: Table name → schema under that name, in database `history`.
        transactions: Steps of each transaction.
    """

    name: str
    claim: str
    needs: frozenset[str]
    tables: Mapping[str, TableSchema]
    transactions: tuple[tuple[Step, ...], ...]

    def __str__(self) -> str:
        return self.name

    def schemas(self, table_id: Callable[[str], TableId]) -> dict[str, TableSchema]:
        """The tables under the names that `table_id` gives them."""
        return {n: TableSchema(table_id(n), s.columns, s.primary_key) for n, s in self.tables.items()}


def load_cases() -> list[History]:
    """Every case of the kit, by name."""
    folder = files("replicator_sdk.testing") / "cases"
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".json")]
    return [
        parse_history(entry.name.removesuffix(".json"), json.loads(entry.read_text("utf-8")))
        for entry in sorted(found, key=lambda e: e.name)
    ]


def load_case(name: str) -> History:
    """The case `name`."""
    return next(case for case in load_cases() if case.name == name)


def parse_history(name: str, value: Mapping[str, Any]) -> History:
    """A history from its JSON form.

    Raises:
        ValueError: When a key or a step is unknown.
    """
    if unknown := value.keys() - {"claim", "source", "needs", "tables", "transactions"}:
        raise ValueError(f"history {name}: unknown keys {sorted(unknown)}")
    return History(
        name,
        value["claim"],
        frozenset(value.get("needs", ())),
        {table: table_schema(TableId("history", table), facts) for table, facts in value["tables"].items()},
        tuple(tuple(_step(name, step) for step in steps) for steps in value["transactions"]),
    )


def table_schema(table: TableId, facts: Mapping[str, Any]) -> TableSchema:
    """A table's schema from the keys `columns` and `key`."""
    columns = tuple(column(name, text) for name, text in facts["columns"].items())
    return TableSchema(table, columns, tuple(facts.get("key", ())))


def column(name: str, text: str) -> Column:
    """A column from its type's text form, which ends in ` not null` where it is so."""
    bare = text.removesuffix(" not null")
    return Column(name, parse_type(bare), bare == text, bare)


def _step(history: str, value: Mapping[str, Any]) -> Step:
    kind = next(iter(value))
    if kind not in KINDS:
        raise ValueError(f"history {history}: unknown step {kind!r}")
    return Step(kind, value[kind], {k: v for k, v in value.items() if k != kind})
