"""Stores the JSON of all tables under two state keys, so that the cost of a save hardly grows with the number of tables.

`engine-tables` has all tables as of some save, and a number that rises with each writing of it. `engine-tables-changes` has the
tables that changed since, whole, and the same number. A save writes the second, until it is so long that writing the first is
cheaper: with n tables a save writes about the root of n of them. Each is one atomic write: a reader sees all of a save or nothing of it.

Most of a table's JSON is its schemas: each is stored once, and its columns as lists (`packed`), which is form 4. Those of earlier forms are read, too.

The changes are those since the number *before* the newest one. Where the newest file of `engine-tables` is damaged and the state
store gives the one before it, the changes fit that one as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from replicator_runtime.stored_forms import CHANGES, TABLES, head, parsed
from replicator_sdk.schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_state import StateStore

TOGETHER = (TABLES, CHANGES)
"""Of these the one that was stored last has all of the last save, or fits what the other one was before it."""
_LOOKS = 5
_COLUMN = ("name", "type", "nullable", "sourceType", "sourceId")

Texts = dict[str, str | None]
"""By table: its JSON; None for a table that is not there any more."""


class TableFile:
    """Used by one thread at a time.

    Args:
        store: The state store; a save goes through it, so one of a run that was superseded is refused.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._stored: dict[str, str] | None = None
        self._selection = "null"
        self._number = 0
        self._wrote_all = False
        self._since: Texts = {}
        self._since_before: Texts = {}

    @property
    def is_known(self) -> bool:
        """Whether it is known what is stored; until then all tables must be put."""
        return self._stored is not None

    def load(self) -> tuple[list[Any], Any]:
        """Read the JSON of each table, and of the selection; None for a selection that is not known.

        Raises:
            HistoryLostError: RPL-7125 in a run, when the tables are older than what the changes were stored after.
        """
        whole, changes = self._read()
        tables = {_key(table): table for table in whole["tables"]}
        selection, self._since = whole.get("selection"), {}
        if changes:
            changed = {_key(table): table for table in changes["tables"]}
            self._since = dict.fromkeys(changes["gone"]) | {key: json.dumps(table) for key, table in changed.items()}
            tables, selection = tables | changed, changes["selection"]
            for key in changes["gone"]:
                tables.pop(key, None)
        self._stored = {key: json.dumps(table) for key, table in tables.items()}
        self._selection = json.dumps(selection)
        # After the number of any changes there are, so that these are never taken for changes since the next writing of all tables.
        self._number, self._wrote_all = max(0, whole.get("number", 0), changes["number"] if changes else 0), False
        return list(tables.values()), selection

    def put(self, texts: Mapping[str, str], selection: str, *, only_these: bool) -> None:
        """Store these tables, and the selection; durable when this returns. What is stored already is not written.

        Args:
            texts: By table (`table_key`), its JSON.
            selection: JSON.
            only_these: Whether other tables are forgotten; else they stay as they are.
        """
        stored = self._stored or {}
        changed: Texts = {key: text for key, text in texts.items() if stored.get(key) != text}
        if only_these:
            changed |= dict.fromkeys(stored.keys() - texts.keys())
        if self.is_known and not changed and selection == self._selection:
            return
        kept = {key: text for key, text in (stored | changed).items() if text is not None}
        self._wrote_all &= self.is_known
        self._stored = None  # not known, should the write fail
        self._write(kept, changed, selection)
        self._stored, self._selection = kept, selection

    def _write(self, kept: dict[str, str], changed: Texts, selection: str) -> None:
        since = self._since | changed
        if self._wrote_all and 3 * len(since) ** 2 <= 2 * len(kept):
            before = self._since_before | changed
            self._store.put(CHANGES, self._document(CHANGES, before, selection, self._number), numbered=True)
            self._since, self._since_before = since, before
            return
        self._wrote_all = False
        self._store.put(TABLES, self._document(TABLES, kept, selection, self._number + 1), numbered=True)
        self._number, self._wrote_all, self._since, self._since_before = self._number + 1, True, {}, since

    def _document(self, place: str, texts: Mapping[str, str | None], selection: str, number: int) -> bytes:
        tables = ", ".join(text for text in texts.values() if text is not None)
        gone = json.dumps([key for key, text in texts.items() if text is None])
        begin = json.dumps(head(place))[:-1]
        content = f'{begin}, "number": {number}, "selection": {selection}, "gone": {gone}, "tables": [{tables}]}}'
        return content.encode()

    def _read(self) -> tuple[Any, Any]:
        """All tables, and the changes that belong to them; None for none."""
        whole, changes = self._read_once()
        for _ in range(_LOOKS):
            if changes is None or changes["number"] <= whole.get("number", 0) + 1:
                break
            whole, changes = self._read_once()  # a run beside this reader has written both between the two reads
        after = -1 if changes is None else changes["number"] - whole.get("number", 0)
        if after > 1:
            self._store.refuse_older(TABLES, CHANGES)
        return whole, changes if after in {0, 1} else None

    def _read_once(self) -> tuple[Any, Any]:
        content = self._store.get(TABLES)
        whole = {"tables": [], "number": -1} if content is None else parsed(TABLES, content)
        changes = self._store.get(CHANGES)
        return whole, None if changes is None else parsed(CHANGES, changes)


def table_key(table: Mapping[str, Any]) -> str:
    """The key of a table, from its JSON."""
    return json.dumps(table, sort_keys=True)


def _key(entry: Mapping[str, Any]) -> str:
    return table_key(entry["table"])


def packed(schemas: Sequence[tuple[Any, TableSchema]]) -> list[list[Any]]:
    """The JSON of a table's schemas, each with the JSON of where it is valid from; None for one that is as the one before it."""
    stored: list[list[Any]] = []
    before: TableSchema | None = None
    for since, schema in schemas:
        stored.append([since, None if schema == before else _packed(schema)])
        before = schema
    return stored


def unpacked(stored: Sequence[Sequence[Any]]) -> list[tuple[Any, TableSchema]]:
    """The inverse of `packed`; takes the forms of earlier releases, too."""
    schemas: list[tuple[Any, TableSchema]] = []
    for since, schema in stored:
        schemas.append((since, schemas[-1][1] if schema is None else _unpacked(schema)))
    return schemas


def _packed(schema: TableSchema) -> dict[str, Any]:
    columns = [[c.name, str(c.type), c.nullable, c.source_type, c.source_id] for c in schema.columns]
    key, source_id = list(schema.primary_key), schema.source_id
    return {"table": schema.table.to_json(), "columns": columns, "primaryKey": key, "sourceId": source_id}


def _unpacked(stored: dict[str, Any]) -> TableSchema:
    columns = [dict(zip(_COLUMN, c, strict=True)) if isinstance(c, list) else c for c in stored["columns"]]
    return TableSchema.from_json({**stored, "columns": columns})
