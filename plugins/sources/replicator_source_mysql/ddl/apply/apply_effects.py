"""Applies statements to the definitions of their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.apply.alter_columns import alter, find_column
from replicator_source_mysql.ddl.apply.build_column import build_column
from replicator_source_mysql.ddl.apply.known_tables import Entry, KnownTable, KnownTables, UnknownTable
from replicator_source_mysql.ddl.apply.table_change import ChangeKind, TableChange
from replicator_source_mysql.ddl.apply.table_keys import InconsistentError, Keys
from replicator_source_mysql.ddl.lex.tokenizer import UnreadError
from replicator_source_mysql.ddl.parse import action as act
from replicator_source_mysql.ddl.parse import effect as eff
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition

_MISSED = "it does not fit the table's definition as it is known"
_MOVED_IN = "the table was moved here from a database that is not followed"


def apply_effects(effects: Iterable[eff.Effect], structures: KnownTables) -> list[TableChange]:
    """Apply what one statement does, in order, to `structures`; returns what happened to each table.

    A statement that is not understood, or that does not fit what is known, leaves the tables it touches unknown. Rows
    changed by the statement itself (`StatementDml`) are refused by the reader.
    """
    changes: list[TableChange] = []
    for effect in effects:
        apply = _APPLY.get(type(effect))
        if apply is not None:
            changes += apply(effect, structures)
    return changes


def definition_of(entry: Entry | None) -> TableDefinition | None:
    """The definition, None when it is not known."""
    return entry.definition if isinstance(entry, KnownTable) else None


def _create(effect: eff.CreateTable, structures: KnownTables) -> list[TableChange]:
    table = structures.spelled(effect.table)
    if not structures.follows(table.database) or (effect.if_not_exists and structures.get(table)):
        return []
    dropped = _dropped(table, structures)
    try:
        structure = _built(effect, table, structures.charset(table.database))
    except (UnreadError, InconsistentError) as err:
        return [*dropped, _unknown(table, str(err) or _MISSED, f"CREATE TABLE {table}", structures)]
    structures.put(table, structure)
    return [*dropped, TableChange(table, ChangeKind.CREATED, after=structure.definition)]


def _built(effect: eff.CreateTable, table: TableId, database_charset: str) -> KnownTable:
    charset = effect.charset or database_charset
    columns: dict[str, ColumnDefinition] = {}
    for syntax in effect.columns:
        has_timestamp = any(column.type.startswith("timestamp") for column in columns.values())
        column = build_column(syntax, charset, effect.session, has_timestamp=has_timestamp)
        if column.name.lower() in columns:
            raise InconsistentError
        columns[column.name.lower()] = column
    keys = Keys()
    keys.add_all(effect.keys, lambda name: find_column(columns, name))
    unique = keys.unique(lambda name: find_column(columns, name))
    for name in keys.primary:
        columns[name.lower()] = replace(columns[name.lower()], nullable=False)
    return KnownTable(TableDefinition(table, tuple(columns.values()), unique, charset), keys.plain, keys.partial)


def _create_like(effect: eff.CreateTableLike, structures: KnownTables) -> list[TableChange]:
    table = structures.spelled(effect.table)
    if not structures.follows(table.database) or (effect.if_not_exists and structures.get(table)):
        return []
    like = structures.get(effect.like)
    dropped = _dropped(table, structures)
    if not isinstance(like, KnownTable):
        reason = f"the definition of {effect.like}, which it is like, is not known"
        return [*dropped, _unknown(table, reason, f"CREATE TABLE {table} LIKE", structures)]
    structure = like.renamed(table)
    structures.put(table, structure)
    return [*dropped, TableChange(table, ChangeKind.CREATED, after=structure.definition)]


def _dropped(table: TableId, structures: KnownTables) -> list[TableChange]:
    name = structures.name(table)
    entry = structures.drop(table)
    return [] if entry is None else [TableChange(name, ChangeKind.DROPPED, before=definition_of(entry))]


def _drop(effect: eff.DropTables, structures: KnownTables) -> list[TableChange]:
    return [change for table in effect.tables for change in _dropped(table, structures)]


def _drop_database(effect: eff.DropDatabase, structures: KnownTables) -> list[TableChange]:
    changes = [change for table in structures.tables(effect.database) for change in _dropped(table, structures)]
    structures.drop_database(effect.database)
    return changes


def _create_database(effect: eff.CreateDatabase, structures: KnownTables) -> list[TableChange]:
    if not structures.follows(effect.database) or (effect.if_not_exists and structures.has_database(effect.database)):
        return []
    changes = _drop_database(eff.DropDatabase(effect.database), structures) if effect.or_replace else []
    structures.put_database(effect.database, effect.charset)
    return changes


def _alter_database(effect: eff.AlterDatabase, structures: KnownTables) -> list[TableChange]:
    if structures.follows(effect.database):
        structures.put_database(effect.database, effect.charset)
    return []


def _truncate(effect: eff.TruncateTable, structures: KnownTables) -> list[TableChange]:
    entry = structures.get(effect.table)
    if entry is None:
        return []
    known = definition_of(entry)
    return [TableChange(structures.name(effect.table), ChangeKind.TRUNCATED, before=known, after=known)]


def _repair(effect: eff.RepairTables, structures: KnownTables) -> list[TableChange]:
    changes: list[TableChange] = []
    for table in effect.tables:
        known = definition_of(structures.get(table))
        if known is not None:
            facts = {"origins": _origins(known), "needs_snapshot": True, "reason": "REPAIR TABLE changed rows"}
            changes.append(TableChange(structures.name(table), ChangeKind.ALTERED, None, known, known, **facts))  # type: ignore[arg-type]
    return changes


def _rename(effect: eff.RenameTables, structures: KnownTables) -> list[TableChange]:
    changes: list[TableChange] = []
    for old, new in effect.pairs:
        entry = structures.get(old)
        if entry is not None:
            after = entry.renamed(structures.spelled(new)) if isinstance(entry, KnownTable) else entry
            changes.append(_moved(old, structures.spelled(new), after, structures))
        elif not structures.follows(old.database) and structures.follows(new.database):
            changes.append(_unknown(structures.spelled(new), _MOVED_IN, f"RENAME TABLE {old}", structures))
        # Otherwise it is a view or a sequence: tables of databases that are followed are all known.
    return changes


def _moved(old: TableId, new: TableId, after: Entry, structures: KnownTables, **facts: Any) -> TableChange:
    """The table has another name; one that leaves the followed databases is not kept."""
    previous = structures.name(old)
    before = structures.drop(old)
    if structures.follows(new.database):
        structures.put(new, after)
    return TableChange(
        new,
        ChangeKind.RENAMED,
        previous,
        definition_of(before),
        definition_of(after),
        **{"origins": _same(after), **facts},
    )


def _same(entry: Entry) -> dict[str, str]:
    known = definition_of(entry)
    return {column.name: column.name for column in known.columns} if known else {}


def _alter(effect: eff.AlterTable, structures: KnownTables) -> list[TableChange]:
    table = structures.name(effect.table)
    entry = structures.get(table)
    head = f"ALTER TABLE {table}"
    if entry is None and not structures.follows(table.database):
        return []
    target = next((a.table for a in effect.actions if isinstance(a, act.RenameTo)), None)
    others = _others(effect, structures, head)
    if not isinstance(entry, KnownTable):
        reason = entry.reason if isinstance(entry, UnknownTable) else _MISSED
        moved = [_moved(table, structures.spelled(target), entry, structures)] if entry and target else []
        return [*others, *(moved or [_unknown(table, reason, head, structures)])]
    try:
        altered = alter(entry, effect.actions, effect.session, structures.charset(table.database))
    except (UnreadError, InconsistentError) as err:
        unknown = _unknown(table, str(err) or _MISSED, head, structures)
        renamed = (
            _moved(table, structures.spelled(target), UnknownTable(unknown.reason, head), structures)
            if target
            else None
        )
        return [*others, *([replace(unknown, table=renamed.table)] if renamed else [unknown])]
    return [*others, _outcome(effect, table, entry, altered.structure, altered.origins, altered.rewritten, structures)]


def _outcome(
    effect: eff.AlterTable,
    table: TableId,
    before: KnownTable,
    after: KnownTable,
    origins: dict[str, str],
    rewritten: frozenset[str],
    structures: KnownTables,
) -> TableChange:
    reasons = [_rows_reason(action) for action in effect.actions]
    reason = next(filter(None, reasons), "")
    facts = {"origins": origins, "rewritten": rewritten, "needs_snapshot": bool(reason), "reason": reason}
    new = structures.spelled(after.definition.table)
    after = after.renamed(new)
    if new != table:
        return _moved(table, new, after, structures, **facts)
    structures.put(table, after)
    return TableChange(table, ChangeKind.ALTERED, None, before.definition, after.definition, **facts)  # type: ignore[arg-type]


def _rows_reason(action: act.Action) -> str:
    match action:
        case act.AddColumn() if action.column.is_auto_increment:
            return f"the server numbered every row in the new column {action.column.name!r}"
        case act.ChangeRows():
            return f"{action.what} changed rows without row events"
        case act.ExchangeRows() | act.PartitionToTable() | act.TableToPartition():
            return "a partition was exchanged with a table, without row events"
        case _:
            return ""


def _others(effect: eff.AlterTable, structures: KnownTables, head: str) -> list[TableChange]:
    """What an ALTER TABLE does to other tables."""
    changes: list[TableChange] = []
    for action in effect.actions:
        match action:
            case act.ExchangeRows():
                known = definition_of(structures.get(action.other))
                if structures.get(action.other) is not None:
                    name = structures.name(action.other)
                    facts = {"origins": _origins(known), "needs_snapshot": True, "reason": _rows_reason(action)}
                    changes.append(TableChange(name, ChangeKind.ALTERED, None, known, known, **facts))  # type: ignore[arg-type]
            case act.TableToPartition():
                changes += _dropped(action.other, structures)
            case act.PartitionToTable():
                changes += _from_partition(effect.table, action, structures, head)
            case _:
                pass
    return changes


def _origins(known: TableDefinition | None) -> dict[str, str]:
    return {column.name: column.name for column in known.columns} if known else {}


def _from_partition(
    table: TableId, action: act.PartitionToTable, structures: KnownTables, head: str
) -> list[TableChange]:
    new = structures.spelled(action.new)
    if not structures.follows(new.database):
        return []
    entry = structures.get(table)
    if not isinstance(entry, KnownTable):
        return [_unknown(new, _MISSED, head, structures)]
    made = entry.renamed(new)
    structures.put(new, made)
    reason = _rows_reason(action)
    return [TableChange(new, ChangeKind.CREATED, after=made.definition, needs_snapshot=True, reason=reason)]


def _unread(effect: eff.Unreadable, structures: KnownTables) -> list[TableChange]:
    touched = structures.tables() if effect.tables is None else effect.tables
    return [
        _unknown(structures.name(table), effect.reason, effect.head, structures)
        for table in touched
        if structures.get(table) is not None or structures.follows(table.database)
    ]


def _unknown(table: TableId, reason: str, head: str, structures: KnownTables) -> TableChange:
    before = definition_of(structures.get(table))
    structures.put(table, UnknownTable(reason, head))
    return TableChange(table, ChangeKind.UNKNOWN, before=before, reason=reason, head=head)


_APPLY: dict[type, Callable[[Any, KnownTables], list[TableChange]]] = {
    eff.CreateTable: _create,
    eff.CreateTableLike: _create_like,
    eff.DropTables: _drop,
    eff.RenameTables: _rename,
    eff.AlterTable: _alter,
    eff.TruncateTable: _truncate,
    eff.RepairTables: _repair,
    eff.CreateDatabase: _create_database,
    eff.AlterDatabase: _alter_database,
    eff.DropDatabase: _drop_database,
    eff.Unreadable: _unread,
}
