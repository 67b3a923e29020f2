"""The columns and keys of one table through one ALTER TABLE, in the order in which the server applies its parts.

Every part names columns as they were before the statement, except AFTER, which names them as they come to be: first columns
are dropped, changed and renamed in place, then those that are added or moved take their positions in the order of the
statement, then keys follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.apply.build_column import build_column, with_default
from replicator_source_mysql.ddl.apply.charset_conversion import converted
from replicator_source_mysql.ddl.apply.known_tables import KnownTable
from replicator_source_mysql.ddl.apply.table_keys import InconsistentError, Keys
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import tokenize
from replicator_source_mysql.ddl.parse import action as act
from replicator_source_mysql.ddl.parse.column_syntax import ColumnSyntax
from replicator_source_mysql.ddl.parse.type_syntax import ResolvedType, read_type
from replicator_source_mysql.definition import ColumnDefinition, TableDefinition, UniqueKey


@dataclass(frozen=True, slots=True)
class Altered:
    """The outcome.

    Attributes:
        structure: The table after it, under its new name.
        origins: Names before by names after.
        rewritten: Columns whose definition changes and that are or were generated, or are numbered by the server from
            now on: it gives rows with 0 the next number.
    """

    structure: KnownTable
    origins: dict[str, str]
    rewritten: frozenset[str]


@dataclass(slots=True)
class _Slot:
    column: ColumnDefinition
    origin: str | None
    is_rewritten: bool = False


def alter(before: KnownTable, actions: Iterable[act.Action], session: Session, database_charset: str) -> Altered:
    """The table after `actions`.

    Raises:
        InconsistentError: When they name what the table does not have.
        UnreadError: When a character set is not known.
    """
    alteration = _Alteration(before, tuple(actions), session, database_charset)
    return alteration.altered()


class _Alteration:
    def __init__(
        self, before: KnownTable, actions: tuple[act.Action, ...], session: Session, database_charset: str
    ) -> None:
        self._before = before
        self._actions = actions
        self._session = session
        self._slots: list[_Slot] = []
        self._charset = self._table_charset(database_charset)
        self._early_defaults: dict[str, act.SetDefault] = {}
        self._keys = Keys(before.definition.keys, before.indexes, before.partial)

    def _table_charset(self, database_charset: str) -> str:
        charset = self._before.definition.charset
        charsets = [action for action in self._actions if isinstance(action, act.DefaultCharset | act.Convert)]
        if self._session.is_mariadb:
            # A default in the same statement wins, whatever is converted.
            charsets.sort(key=lambda action: isinstance(action, act.DefaultCharset))
        for action in charsets:
            charset = action.charset or database_charset
        return charset

    def altered(self) -> Altered:
        moved = self._change_in_place()
        self._put_in_place(moved)
        for action in self._actions:
            if isinstance(action, act.Convert):
                self._convert(action.charset or self._charset)
        keys = self._alter_keys()
        columns = tuple(slot.column for slot in self._slots)
        table = self._before.definition.table
        renames: list[TableId] = [action.table for action in self._actions if isinstance(action, act.RenameTo)]
        definition = TableDefinition(renames[-1] if renames else table, columns, keys, self._charset)
        origins = {slot.column.name: slot.origin for slot in self._slots if slot.origin is not None}
        rewritten = frozenset(slot.column.name for slot in self._slots if slot.is_rewritten)
        return Altered(KnownTable(definition, self._keys.plain, self._keys.partial), origins, rewritten)

    def _change_in_place(self) -> dict[int, _Slot]:
        """Drop, change and rename; the columns that are to move, by the rank of the action that moves them."""
        by_column: dict[str, list[tuple[int, act.Action]]] = {}
        for rank, action in enumerate(self._actions):
            if isinstance(
                action, act.ChangeColumn | act.RenameColumn | act.DropColumn | act.SetDefault | act.SetVisible
            ):
                by_column.setdefault(action.name.lower(), []).append((rank, action))
        moved: dict[int, _Slot] = {}
        followed: dict[str, str | None] = {}
        for column in self._before.definition.columns:
            slot: _Slot | None = _Slot(column, column.name)
            for rank, action in by_column.pop(column.name.lower(), []):
                if slot is None:
                    raise InconsistentError
                slot = self._changed(slot, action)
                if slot is not None and isinstance(action, act.ChangeColumn) and action.after is not None:
                    moved[rank] = slot
            followed[column.name.lower()] = slot.column.name if slot else None
            if slot is not None and slot not in moved.values():
                self._slots.append(slot)
        self._early_defaults = _defaults_of_added(by_column, self._actions)
        self._refuse_missing(by_column)
        self._keys.follow_columns(followed)
        return moved

    def _refuse_missing(self, left: dict[str, list[tuple[int, act.Action]]]) -> None:
        for actions in left.values():
            for _, action in actions:
                if not getattr(action, "if_exists", False):
                    raise InconsistentError

    def _changed(self, slot: _Slot, action: act.Action) -> _Slot | None:
        column = slot.column
        match action:
            case act.DropColumn():
                return None
            case act.RenameColumn():
                slot.column = replace(column, name=action.new_name)
            case act.SetVisible():
                slot.column = replace(column, is_invisible=action.is_invisible)
            case act.SetDefault():
                kind = self._resolved(column)
                slot.column = with_default(column, kind, action.default, self._session)
            case act.ChangeColumn():
                slot.column = self._built(action.column, column.name)
                is_numbered = slot.column.is_auto_increment and not column.is_auto_increment
                slot.is_rewritten = column.is_generated or slot.column.is_generated or is_numbered
            case _:
                raise InconsistentError
        return slot

    def _resolved(self, column: ColumnDefinition) -> ResolvedType:
        """The type of an existing column, parsed as if a statement had written it."""
        cursor = TokenCursor(
            tokenize(column.type.partition(" /*")[0], replace(self._session, has_ansi_quotes=False)), ""
        )
        return ResolvedType(column.type, read_type(cursor, self._session), column.charset)

    def _built(self, syntax: ColumnSyntax, old_name: str = "") -> ColumnDefinition:
        earlier = [c for c in self._before.definition.columns if c.type.startswith("timestamp") and c.name != old_name]
        return build_column(syntax, self._charset, self._session, has_timestamp=bool(earlier))

    def _put_in_place(self, moved: dict[int, _Slot]) -> None:
        for rank, action in enumerate(self._actions):
            if isinstance(action, act.AddColumn):
                if self._rank(action.column.name) is not None:
                    if not action.if_not_exists:
                        raise InconsistentError
                    continue
                column = self._built(action.column)
                early = self._early_defaults.get(column.name.lower())
                if early is not None:
                    column = with_default(column, self._resolved(column), early.default, self._session)
                self._insert(_Slot(column, None), action.after)
            elif rank in moved and isinstance(action, act.ChangeColumn):
                self._insert(moved[rank], action.after)

    def _insert(self, slot: _Slot, after: str | None) -> None:
        if after is None:
            self._slots.append(slot)
        elif after == act.FIRST:
            self._slots.insert(0, slot)
        else:
            rank = self._rank(after)
            if rank is None:
                raise InconsistentError
            self._slots.insert(rank + 1, slot)

    def _rank(self, name: str) -> int | None:
        return next((n for n, slot in enumerate(self._slots) if slot.column.name.lower() == name.lower()), None)

    def _convert(self, charset: str) -> None:
        for slot in self._slots:
            slot.column = converted(slot.column, charset, is_mariadb=self._session.is_mariadb)

    def _ranks_keys(self) -> bool:
        """Whether the server orders keys again: MariaDB does not when columns only become NOT NULL."""
        if not self._session.is_mariadb or any(
            isinstance(action, act.AddKey | act.DropKey) for action in self._actions
        ):
            return True
        before = {column.name: column for column in self._before.definition.columns}
        return any(slot.column.nullable and not before[slot.origin].nullable for slot in self._slots if slot.origin)

    def _alter_keys(self) -> tuple[UniqueKey, ...]:
        for action in self._actions:
            if isinstance(action, act.DropKey):
                self._keys.drop(action.name)
        for action in self._actions:
            if isinstance(action, act.RenameKey):
                self._keys.rename(action.name, action.new_name)
        names = {slot.column.name.lower(): slot.column for slot in self._slots}
        added = [action.key for action in self._actions if isinstance(action, act.AddKey)]
        self._keys.add_all(added, lambda name: find_column(names, name))
        keys = self._keys.unique(lambda name: find_column(names, name), is_ranked=self._ranks_keys())
        primary = {name.lower() for name in self._keys.primary}
        for slot in self._slots:
            if slot.column.name.lower() in primary:
                slot.column = replace(slot.column, nullable=False)
        return keys


def _defaults_of_added(
    left: dict[str, list[tuple[int, act.Action]]], actions: tuple[act.Action, ...]
) -> dict[str, act.SetDefault]:
    """Take out of `left` the defaults of columns that the same statement adds, which MariaDB lets it set."""
    added = {action.column.name.lower() for action in actions if isinstance(action, act.AddColumn)}
    found: dict[str, act.SetDefault] = {}
    for name in added & left.keys():
        last = left[name][-1][1]
        if isinstance(last, act.SetDefault) and len(left[name]) == 1:
            found[name] = last
            del left[name]
    return found


def find_column(columns: dict[str, ColumnDefinition], name: str) -> ColumnDefinition:
    """The column of this name, from a mapping by names in lower case.

    Raises:
        InconsistentError: When there is none.
    """
    if name.lower() not in columns:
        raise InconsistentError
    return columns[name.lower()]
