"""Which tables and columns are replicated, and which changes are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from replicator_runtime.config.model import PipelineConfig, TableConfig
from replicator_sdk.event import DDLOperation, DMLOperation
from replicator_sdk.schema import TableId


@dataclass(frozen=True, slots=True)
class SelectedTable:
    """A table that is replicated.

    Attributes:
        table: Its name.
        columns: Names of the columns to replicate besides the key; None for all.
        dml_blacklist: Changes left out, the pipeline's and the table's own together.
        ddl_blacklist: Schema changes left out, likewise.
        quiet_columns: Columns an assessment says nothing about.
    """

    table: TableId
    columns: tuple[str, ...] | None
    dml_blacklist: frozenset[DMLOperation]
    ddl_blacklist: frozenset[DDLOperation]
    quiet_columns: frozenset[str] = frozenset()


class Selection:
    """The pipeline's `tables`; everything when there are none.

    Of several entries that match a table, one that names it exactly wins, else the first.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._entries = config.tables or (TableConfig(table="*"),)
        self._dml = config.dml_blacklist
        self._ddl = config.ddl_blacklist

    def matches(self, table: TableId) -> SelectedTable | None:
        """How `table` is replicated; None when it is not."""
        entries = [entry for entry in self._entries if _entry_matches(entry, table)]
        if not entries:
            return None
        entry = next((e for e in entries if e.table == table.table), entries[0])
        columns = entry.columns or ()
        return SelectedTable(
            table,
            tuple(c.name for c in columns) or None,
            frozenset(DMLOperation[name] for name in (*self._dml, *entry.dml_blacklist)),
            frozenset(DDLOperation(name) for name in (*self._ddl, *entry.ddl_blacklist)),
            frozenset(c.name for c in columns if c.suppress_warning),
        )

    def selects(self, table: TableId) -> bool:
        """Whether `table` is replicated."""
        return any(_entry_matches(entry, table) for entry in self._entries)

    def left_out_of(self, database: str) -> frozenset[DDLOperation] | None:
        """Which changes of a database are left out: those that any entry for its tables leaves out; None when it has no entry."""
        entries = [entry for entry in self._entries if entry.database is None or glob_matches(entry.database, database)]
        names = {*self._ddl, *(name for entry in entries for name in entry.ddl_blacklist)}
        return frozenset(DDLOperation(name) for name in names) if entries else None

    def to_json(self) -> list[dict[str, str | None]]:
        """The tables that the entries name, to be stored and given to `matched_by` in a later run."""
        return [{"database": e.database, "schema": e.schema_, "table": e.table} for e in self._entries]

    def unmatched(self, tables: Iterable[TableId]) -> list[TableConfig]:
        """Entries that match none of `tables`, in the order of the JSON; empty when everything is selected."""
        present = list(tables)
        return [e for e in self._entries if e.table != "*" and not any(_entry_matches(e, t) for t in present)]


def matched_by(entries: Iterable[Mapping[str, str | None]], table: TableId) -> bool:
    """Whether `entries`, written by `Selection.to_json`, select `table`."""
    return any(_entry_matches(TableConfig.model_validate(entry), table) for entry in entries)


def is_pattern(entry: TableConfig) -> bool:
    """Whether an entry may match more than one table name."""
    return any(mark in part for part in _parts(entry) for mark in "*?")


def entry_name(entry: TableConfig) -> str:
    """The entry as people write a table's name, with the parts it gives."""
    return ".".join(_parts(entry))


def glob_matches(pattern: str, name: str) -> bool:
    """Whether `name` is `pattern` or fits it: `*` matches any characters, `?` one; nothing else is special.

    Compares case, and takes time in proportion to both lengths multiplied at worst.
    """
    if pattern == name:
        return True
    at = star = 0  # next place in the pattern; the place after the last star
    mark = -1  # where in `name` that star's share ends; -1 before any star
    i = 0
    while i < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, mark, at = at + 1, i, at + 1
        elif at < len(pattern) and pattern[at] in {"?", name[i]}:
            at, i = at + 1, i + 1
        elif mark >= 0:
            mark += 1
            at, i = star, mark
        else:
            return False
    return not pattern[at:].strip("*")


def _entry_matches(entry: TableConfig, table: TableId) -> bool:
    parts = ((entry.database, table.database), (entry.schema_, table.schema), (entry.table, table.table))
    return all(pattern is None or glob_matches(pattern, name) for pattern, name in parts)


def _parts(entry: TableConfig) -> list[str]:
    return [part for part in (entry.database, entry.schema_, entry.table) if part is not None]
