"""Which tables and columns are replicated, and which changes are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from replicator_runtime.config.model import PipelineConfig, TableConfig
from replicator_runtime.config.sections.slo import SloConfig
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
        where: The condition of the rows that a copy has; all when it is empty.
        slo: Its freshness objective; None when it has none.
    """

    table: TableId
    columns: tuple[str, ...] | None
    dml_blacklist: frozenset[DMLOperation]
    ddl_blacklist: frozenset[DDLOperation]
    quiet_columns: frozenset[str] = frozenset()
    where: str = ""
    slo: SloConfig | None = None


class Selection:
    """The pipeline's `tables`; everything when no entry selects any.

    What an entry with `exclude` matches is not replicated. Of several other entries that match a table, one that names it exactly
    wins, else the first.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._excluded, self._entries = _divided(config.tables)
        self._dml = config.dml_blacklist
        self._ddl = config.ddl_blacklist
        self._slo = config.slo

    def matches(self, table: TableId) -> SelectedTable | None:
        """How `table` is replicated; None when it is not."""
        entries = [entry for entry in self._entries if _entry_matches(entry, table)]
        if not entries or _any_matches(self._excluded, table):
            return None
        entry = next((e for e in entries if e.table == table.table), entries[0])
        columns = entry.columns or ()
        return SelectedTable(
            table,
            tuple(c.name for c in columns) or None,
            frozenset(DMLOperation[name] for name in (*self._dml, *entry.dml_blacklist)),
            frozenset(DDLOperation(name) for name in (*self._ddl, *entry.ddl_blacklist)),
            frozenset(c.name for c in columns if c.suppress_warning),
            entry.where or "",
            self._slo if entry.slo is None else entry.slo.within(self._slo),
        )

    def selects(self, table: TableId) -> bool:
        """Whether `table` is replicated."""
        return _any_matches(self._entries, table) and not _any_matches(self._excluded, table)

    def narrowed(self, tables: Iterable[TableId]) -> frozenset[TableId]:
        """Those of `tables` of which only some columns are selected."""
        found = map(self.matches, tables)
        return frozenset(one.table for one in found if one is not None and one.columns is not None)

    def names(self, table: TableId) -> bool:
        """Whether an entry selects `table` by its name, not by a pattern."""
        named = (entry for entry in self._entries if not is_pattern(entry) and entry.table == table.table)
        return any(_entry_matches(entry, table) for entry in named) and self.selects(table)

    @property
    def has_patterns(self) -> bool:
        """Whether tables may be selected that no entry names."""
        return any(map(is_pattern, self._entries))

    def left_out_of(self, database: str) -> frozenset[DDLOperation] | None:
        """Which changes of a database are left out: those that any entry for its tables leaves out; None when it has no entry."""
        entries = [entry for entry in self._entries if entry.database is None or glob_matches(entry.database, database)]
        names = {*self._ddl, *(name for entry in entries for name in entry.ddl_blacklist)}
        return frozenset(DDLOperation(name) for name in names) if entries else None

    def to_json(self) -> list[dict[str, str | bool | None]]:
        """The tables that the entries name, to be stored and given to `matched_by` in a later run."""
        selecting = [_named(entry) for entry in self._entries]
        return [*selecting, *({**_named(entry), "exclude": True} for entry in self._excluded)]

    def unmatched(self, tables: Iterable[TableId]) -> list[TableConfig]:
        """Entries that select none of `tables`, in the order of the JSON; empty when everything is selected."""
        return _unmatched(self._entries, list(tables))

    def unmatched_exclusions(self, tables: Iterable[TableId]) -> list[TableConfig]:
        """Entries with `exclude` that match none of `tables`, in the order of the JSON."""
        return _unmatched(self._excluded, list(tables))


def matched_by(entries: Iterable[Mapping[str, str | bool | None]], table: TableId) -> bool:
    """Whether `entries`, written by `Selection.to_json`, select `table`."""
    excluded, selecting = _divided([TableConfig.model_validate(entry) for entry in entries])
    return _any_matches(selecting, table) and not _any_matches(excluded, table)


def is_pattern(entry: TableConfig) -> bool:
    """Whether an entry may match more than one table name."""
    return any(mark in part for part in _parts(entry) for mark in "*?")


def entry_parts(entry: TableConfig) -> tuple[str, ...]:
    """The parts of a table's name that an entry gives, the table's last."""
    return tuple(_parts(entry))


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


def _divided(entries: Iterable[TableConfig]) -> tuple[Sequence[TableConfig], Sequence[TableConfig]]:
    """The entries that exclude tables, and those that select some: one for everything where there is none."""
    excluded = tuple(entry for entry in entries if entry.exclude)
    return excluded, tuple(entry for entry in entries if not entry.exclude) or (TableConfig(table="*"),)


def _named(entry: TableConfig) -> dict[str, str | bool | None]:
    return {"database": entry.database, "schema": entry.schema_, "table": entry.table}


def _unmatched(entries: Iterable[TableConfig], tables: Sequence[TableId]) -> list[TableConfig]:
    return [e for e in entries if e.table != "*" and not any(_entry_matches(e, table) for table in tables)]


def _any_matches(entries: Iterable[TableConfig], table: TableId) -> bool:
    return any(_entry_matches(entry, table) for entry in entries)


def _entry_matches(entry: TableConfig, table: TableId) -> bool:
    parts = ((entry.database, table.database), (entry.schema_, table.schema), (entry.table, table.table))
    return all(pattern is None or glob_matches(pattern, name) for pattern, name in parts)


def _parts(entry: TableConfig) -> list[str]:
    return [part for part in (entry.database, entry.schema_, entry.table) if part is not None]
