"""Finds what tables looked like at an earlier position of the log, from what they are now and the statements since then.

Each statement that has touched a table is undone, the last one first, as far as its text says what was before: an added column was
not there. What a statement has dropped or redefined is not in the log; such a table is refused. Then all statements are applied
again to what was found, as a reader will do. Only where that gives the table as it is now was it right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_source_mysql.binlog.query_event import Query
from replicator_source_mysql.ddl.apply.table_change import ChangeKind
from replicator_source_mysql.ddl.history.schema_history import SchemaHistory
from replicator_source_mysql.ddl.parse import action as act
from replicator_source_mysql.ddl.parse import effect as eff
from replicator_source_mysql.ddl.parse.statement import read_statement
from replicator_source_mysql.definition import TableDefinition
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.streaming.schema_baseline import Baseline
from replicator_source_mysql.types.column_type import ColumnType, parse_column_type

_NOTHING = (eff.Harmless, eff.StatementDml, eff.TruncateTable, eff.AlterDatabase, eff.CreateDatabase)
_HARMLESS = (act.SetDefault, act.SetVisible, act.DefaultCharset)
Selected = Mapping[TableId, Collection[str] | None]
Steps = Sequence[tuple[Sequence[eff.Effect], MySqlOffset]]


class _NotUndoneError(Exception):
    """Why it is not known what was before a statement."""


@dataclass(frozen=True, slots=True)
class FormerTables:
    """Tables as they were at a position.

    Attributes:
        known: All tables of the followed databases whose definitions there are known, as a history begins with them.
        captured: The captured ones; one that was created later as it was created.
    """

    known: Baseline
    captured: Mapping[TableId, TableDefinition]


def former_tables(
    now: Baseline, statements: Sequence[tuple[Query, MySqlOffset]], offset: MySqlOffset, selected: Selected, mode: int
) -> FormerTables:
    """The tables at `offset`.

    Args:
        now: All tables of the followed databases as they are at a later position.
        statements: The statements of the log from `offset` to there, each with the offset after it.
        offset: The position.
        selected: The captured tables, with the selected columns where the pipeline names them.
        mode: The server's `lower_case_table_names`.

    Raises:
        NeedsUserError: RPL-3818 when one of the captured tables is not known there.
    """
    steps = [(read_statement(query.text, query.session), after) for query, after in statements]
    undoing = _Undoing(now, selected, folded=mode != 0)
    for effects, after in reversed(steps):
        for effect in reversed(effects):
            undoing.undo(effect, after)
    known = Baseline(offset, now.databases, undoing.known, undoing.indexes)
    return FormerTables(known, _checked(known, now, steps, selected, mode))


def _checked(
    known: Baseline, now: Baseline, steps: Steps, selected: Selected, mode: int
) -> dict[TableId, TableDefinition]:
    """The captured tables of `known`, after a look whether the statements make of them what they are now."""
    history = SchemaHistory.begin(known.offset, known, lower_case_table_names=mode, indexes=known.indexes)
    found = {table: known.definitions[table] for table in selected if table in known.definitions}
    for effects, after in steps:
        for change in history.apply(effects, after):
            if change.kind is ChangeKind.CREATED and change.after is not None and change.table in selected:
                found.setdefault(change.table, change.after)
    for table in selected:
        is_known = table in found and history.knows(table) and not history.unknown(table)
        if not is_known or _form(history.definition(table)) != _form(now.definitions[table]):
            raise not_known(table, "the statements since then do not explain what it is now", now.offset)
    return found


def not_known(table: TableId, why: str, later: MySqlOffset) -> NeedsUserError:
    """The error of a table that cannot begin at a position; `later` is one at which it can."""
    return NeedsUserError(
        f"its columns there are not known: {why}",
        code="RPL-3818",
        table=str(table),
        hint=f'begin at `"from": {{"offset": "{later}"}}` or later, or leave it out of `tables`',
    )


class _Undoing:
    """The tables of the followed databases, before ever more statements.

    Attributes:
        known: Their definitions; a captured table is missing before it was created, another one also where it is not known.
        indexes: Their indexes that are not unique.
    """

    def __init__(self, now: Baseline, selected: Selected, *, folded: bool) -> None:
        self.known = dict(now.definitions)
        self.indexes = dict(now.indexes)
        self._selected = selected
        self._names = {_fold(table): table for table in now.definitions} if folded else {}

    def _name(self, table: TableId) -> TableId:
        return self._names.get(_fold(table), table) if self._names else table

    def undo(self, effect: eff.Effect, after: MySqlOffset) -> None:
        """Go back to before a statement, which ends at `after`."""
        if isinstance(effect, eff.AlterTable):
            self._undo_alter(effect, after)
        elif isinstance(effect, (eff.CreateTable, eff.CreateTableLike)):
            self._undo_create(effect, after)
        elif isinstance(effect, eff.DropTables | eff.RepairTables):
            verb = "dropped" if isinstance(effect, eff.DropTables) else "repaired"
            self._refuse(effect.tables, f"a table of its name was {verb} since then", after)
        elif isinstance(effect, eff.RenameTables):
            self._refuse([table for pair in effect.pairs for table in pair], "it had another name", after)
        elif isinstance(effect, eff.DropDatabase):
            known = [*self.known, *self._selected]
            tables = [table for table in known if table.database.lower() == effect.database.lower()]
            self._refuse(tables, "its database was dropped since then", after)
        elif isinstance(effect, eff.Unreadable):
            touched = [*self.known, *self._selected] if effect.tables is None else effect.tables
            self._refuse(touched, f"the statement {effect.head!r} is not understood", after)
        else:
            assert isinstance(effect, _NOTHING)

    def _refuse(self, tables: Sequence[TableId], why: str, after: MySqlOffset) -> None:
        """The tables are not known before; one that is captured refuses the start."""
        for table in map(self._name, tables):
            if table in self._selected:
                raise not_known(table, why, after)
            self.known.pop(table, None)
            self.indexes.pop(table, None)

    def _undo_create(self, effect: eff.CreateTable | eff.CreateTableLike, after: MySqlOffset) -> None:
        if effect.if_not_exists or effect.or_replace:
            self._refuse([effect.table], "it may have existed before it was created since then", after)
        self.known.pop(self._name(effect.table), None)
        self.indexes.pop(self._name(effect.table), None)

    def _undo_alter(self, effect: eff.AlterTable, after: MySqlOffset) -> None:
        table = self._name(effect.table)
        names = [action.table for action in effect.actions if isinstance(action, act.RenameTo)]
        if names:
            self._refuse([table, *names], "it had another name", after)
        definition = self.known.get(table)
        if definition is None:
            return
        try:
            for action in reversed(effect.actions):
                definition = _undone(definition, action, self._selected.get(table))
        except _NotUndoneError as error:
            self._refuse([table], f"an ALTER TABLE since then {error}", after)
            return
        self.known[table] = definition
        self.indexes.pop(table, None)


def _fold(table: TableId) -> TableId:
    return TableId(table.database.lower(), table.table.lower())


def _undone(definition: TableDefinition, action: act.Action, names: Collection[str] | None) -> TableDefinition:
    if isinstance(action, _HARMLESS):
        return definition  # says nothing of how rows are decoded
    undo = _UNDO.get(type(action))
    if undo is None:
        raise _NotUndoneError("says what it made of it, and not what was before")
    return undo(definition, action, names)


def _without_column(
    definition: TableDefinition, action: act.AddColumn, names: Collection[str] | None
) -> TableDefinition:
    name = action.column.name
    if action.if_not_exists:
        raise _NotUndoneError("has added a column if it did not exist")
    if name not in definition or (names is not None and definition[name].name in names):
        raise _NotUndoneError("has added a column that the pipeline selects")
    columns = [column for column in definition.columns if column.name.lower() != name.lower()]
    keys = tuple(key for key in definition.keys if name.lower() not in map(str.lower, key.columns))
    return replace(definition, columns=tuple(columns), keys=keys)


def _renamed_back(
    definition: TableDefinition, action: act.RenameColumn, names: Collection[str] | None
) -> TableDefinition:
    new, old = action.new_name.lower(), action.name
    if action.if_exists:
        raise _NotUndoneError("has renamed a column if it existed")
    if new not in definition or old in definition or (names is not None and definition[new].name in names):
        raise _NotUndoneError("has renamed a column that the pipeline selects, or has taken its name")
    columns = [replace(column, name=old) if column.name.lower() == new else column for column in definition.columns]
    keys = [replace(key, columns=tuple(old if n.lower() == new else n for n in key.columns)) for key in definition.keys]
    return replace(definition, columns=tuple(columns), keys=tuple(keys))


def _without_key(definition: TableDefinition, action: act.AddKey, _: Collection[str] | None) -> TableDefinition:
    key = action.key
    if key.kind in {act.KeyKind.PLAIN, act.KeyKind.FOREIGN}:
        return definition
    if key.kind is act.KeyKind.PRIMARY or key.if_not_exists or not key.name:
        raise _NotUndoneError("has added a key")
    return replace(definition, keys=tuple(known for known in definition.keys if known.name.lower() != key.name.lower()))


def _key_renamed_back(definition: TableDefinition, action: act.RenameKey, _: Collection[str] | None) -> TableDefinition:
    new = action.new_name.lower()
    keys = (replace(key, name=action.name) if key.name.lower() == new else key for key in definition.keys)
    return replace(definition, keys=tuple(keys))


_UNDO: Mapping[type, Callable[..., TableDefinition]] = {
    act.AddColumn: _without_column,
    act.RenameColumn: _renamed_back,
    act.AddKey: _without_key,
    act.RenameKey: _key_renamed_back,
}


def _form(definition: TableDefinition) -> tuple[object, ...]:
    """What decides how rows of a table are decoded, without what the catalogue and a statement may write differently."""
    columns = tuple((c.name, _type(c.type), c.nullable, c.charset, c.is_generated) for c in definition.columns)
    return (columns, definition.identity)


def _type(text: str) -> ColumnType:
    """The type without an integer's display width."""
    found = parse_column_type(text)
    return replace(found, parameters=()) if found.name.endswith("int") else found
