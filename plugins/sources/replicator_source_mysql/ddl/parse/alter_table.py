"""ALTER TABLE, CREATE INDEX and DROP INDEX."""

from __future__ import annotations

from collections.abc import Callable

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, UnreadError
from replicator_source_mysql.ddl.parse import action as act
from replicator_source_mysql.ddl.parse.column_syntax import read_charset, read_column, skip_enforced
from replicator_source_mysql.ddl.parse.create_table import read_table_option
from replicator_source_mysql.ddl.parse.default_syntax import NO_DEFAULT, read_default
from replicator_source_mysql.ddl.parse.effect import AlterTable
from replicator_source_mysql.ddl.parse.key_syntax import (
    column_keys,
    key_columns,
    read_key,
    skip_key_options,
    starts_key,
)  # fmt: skip
from replicator_source_mysql.definition import PRIMARY
from replicator_source_mysql.types.charset_names import collation_charset

_VERSIONED = "system versioning of the table changes, which is not supported"
_Actions = list[act.Action]


def read_alter_table(cursor: TokenCursor, session: Session, *, ignore: bool) -> AlterTable:
    """What follows ALTER [ONLINE] [IGNORE] TABLE."""
    cursor.accept("IF", "EXISTS")
    table = cursor.table()
    skip_wait(cursor)
    actions: _Actions = [act.ChangeRows("ALTER IGNORE")] if ignore else []
    while not cursor.done:
        actions += _specification(cursor, session)
        cursor.accept(",")
    return AlterTable(table, tuple(actions), session)


def skip_wait(cursor: TokenCursor) -> None:
    """Pass MariaDB's NOWAIT or WAIT n."""
    if not cursor.accept("NOWAIT") and cursor.accept("WAIT"):
        cursor.integer()


def _specification(cursor: TokenCursor, session: Session) -> _Actions:
    head = cursor.peek()
    if head in _HEADS and cursor.token().kind is Kind.WORD:
        cursor.take()
        return _HEADS[head](cursor, session)
    return _table_option(cursor)


def _add(cursor: TokenCursor, session: Session) -> _Actions:
    if cursor.accept("SYSTEM", "VERSIONING"):
        raise UnreadError(_VERSIONED)
    if cursor.accept("PARTITION"):
        return _skip_partitions(cursor)
    if starts_key(cursor):
        key = read_key(cursor)
        return [act.AddKey(key)] if isinstance(key, act.KeySyntax) else []
    cursor.accept("COLUMN")
    exists = cursor.accept("IF", "NOT", "EXISTS")
    if cursor.accept("("):
        return _add_several(cursor, session, exists=exists)
    column = read_column(cursor, session)
    added = act.AddColumn(column, _place(cursor), exists)
    return [added, *map(act.AddKey, column_keys(column))]


def _add_several(cursor: TokenCursor, session: Session, *, exists: bool) -> _Actions:
    actions: _Actions = []
    while True:
        if starts_key(cursor):
            key = read_key(cursor)
            actions += [act.AddKey(key)] if isinstance(key, act.KeySyntax) else []
        else:
            column = read_column(cursor, session)
            actions += [act.AddColumn(column, None, exists), *map(act.AddKey, column_keys(column))]
        if cursor.accept(")"):
            return actions
        cursor.expect(",")


def _place(cursor: TokenCursor) -> str | None:
    if cursor.accept("FIRST"):
        return act.FIRST
    return cursor.name() if cursor.accept("AFTER") else None


def _drop(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    if cursor.accept("SYSTEM", "VERSIONING") or cursor.accept("PERIOD", "FOR", "SYSTEM_TIME"):
        raise UnreadError(_VERSIONED)
    if cursor.accept("PERIOD", "FOR"):
        cursor.accept("IF", "EXISTS")
        cursor.name()
        return []
    if cursor.accept("PARTITION"):
        _skip_partitions(cursor)
        return [act.ChangeRows("DROP PARTITION")]
    if cursor.accept("PRIMARY", "KEY"):
        return [act.DropKey(PRIMARY)]
    if cursor.accept("FOREIGN", "KEY") or cursor.accept("CHECK"):
        cursor.accept("IF", "EXISTS")
        cursor.name()
        return []
    if cursor.accept_any("INDEX", "KEY", "CONSTRAINT"):
        cursor.accept("IF", "EXISTS")
        return [act.DropKey(cursor.name())]
    cursor.accept("COLUMN")
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    cursor.accept_any("RESTRICT", "CASCADE")
    return [act.DropColumn(name, exists)]


def _modify(cursor: TokenCursor, session: Session) -> _Actions:
    cursor.accept("COLUMN")
    exists = cursor.accept("IF", "EXISTS")
    column = read_column(cursor, session)
    changed = act.ChangeColumn(column.name, column, _place(cursor), exists)
    return [changed, *map(act.AddKey, column_keys(column))]


def _change(cursor: TokenCursor, session: Session) -> _Actions:
    cursor.accept("COLUMN")
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    column = read_column(cursor, session)
    changed = act.ChangeColumn(name, column, _place(cursor), exists)
    return [changed, *map(act.AddKey, column_keys(column))]


def _rename(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    if cursor.accept("COLUMN"):
        exists = cursor.accept("IF", "EXISTS")
        name = cursor.name()
        cursor.expect("TO")
        return [act.RenameColumn(name, cursor.name(), exists)]
    if cursor.accept_any("INDEX", "KEY"):
        cursor.accept("IF", "EXISTS")
        name = cursor.name()
        cursor.expect("TO")
        return [act.RenameKey(name, cursor.name())]
    cursor.accept_any("TO", "AS", "=")
    return [act.RenameTo(cursor.table())]


def _alter(cursor: TokenCursor, session: Session) -> _Actions:
    if cursor.accept_any("INDEX", "KEY"):
        cursor.accept("IF", "EXISTS")
        cursor.name()
        if not (cursor.accept_any("VISIBLE", "INVISIBLE", "IGNORED") or cursor.accept("NOT", "IGNORED")):
            raise UnreadError("a change of an index is not known")
        return []
    if cursor.accept_any("CHECK", "CONSTRAINT"):
        cursor.name()
        skip_enforced(cursor)
        return []
    cursor.accept("COLUMN")
    exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    if cursor.accept("DROP", "DEFAULT"):
        return [act.SetDefault(name, NO_DEFAULT, exists)]
    cursor.expect("SET")
    if cursor.accept("DEFAULT"):
        return [act.SetDefault(name, read_default(cursor, session), exists)]
    visibility = cursor.accept_any("VISIBLE", "INVISIBLE")
    if not visibility:
        raise UnreadError("a change of a column is not known")
    return [act.SetVisible(name, visibility == "INVISIBLE")]


def _convert(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    if cursor.accept("PARTITION"):
        cursor.name()
        cursor.expect("TO", "TABLE")
        created = cursor.table()
        _skip_validation(cursor)
        return [act.PartitionToTable(created)]
    if cursor.accept("TABLE"):
        other = cursor.table()
        cursor.expect("TO")
        while not cursor.done:
            cursor.take()
        return [act.TableToPartition(other)]
    cursor.expect("TO")
    named = read_charset(cursor)
    if named is None:
        raise UnreadError("CONVERT TO names no character set")
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        collation = cursor.name_or_text()
        named = named or collation_charset(collation)
    return [act.Convert(named)]


def _partition(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    """Rows stay in the table."""
    return _skip_partitions(cursor)


def _repair(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    _skip_partitions(cursor)
    return [act.ChangeRows("REPAIR PARTITION")]


def _skip_partitions(cursor: TokenCursor) -> _Actions:
    while not cursor.done:
        cursor.take()
    return []


def _truncate(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    cursor.expect("PARTITION")
    _skip_partitions(cursor)
    return [act.ChangeRows("TRUNCATE PARTITION")]


def _exchange(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    cursor.expect("PARTITION")
    cursor.name()
    cursor.expect("WITH", "TABLE")
    other = cursor.table()
    _skip_validation(cursor)
    return [act.ExchangeRows(other)]


def _skip_validation(cursor: TokenCursor) -> None:
    if cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("VALIDATION")


def _tablespace(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    if cursor.accept("PARTITION"):
        while not cursor.done and cursor.peek() != "TABLESPACE":
            cursor.take()
    cursor.expect("TABLESPACE")
    return [act.ChangeRows("DISCARD or IMPORT TABLESPACE")]


def _algorithm(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    cursor.accept("=")
    cursor.word()
    return []


def _word_after(*words: str) -> Callable[[TokenCursor, Session], _Actions]:
    def skip(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
        for word in words:
            cursor.expect(word)
        return []

    return skip


def _order(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    cursor.expect("BY")
    while True:
        cursor.name()
        while cursor.accept("."):
            cursor.name()
        cursor.accept_any("ASC", "DESC")
        # `ORDER BY a, ADD b int`: a column's name is followed by a comma, a direction or the end.
        if (
            cursor.peek() != ","
            or cursor.peek(2) not in {",", "ASC", "DESC", "", ".", ";"}
            or cursor.peek(1) == "FORCE"
        ):
            return []
        cursor.take()


def _validation(cursor: TokenCursor, session: Session) -> _Actions:  # noqa: ARG001
    cursor.expect("VALIDATION")
    return []


_HEADS: dict[str, Callable[[TokenCursor, Session], _Actions]] = {
    "ADD": _add, "DROP": _drop, "MODIFY": _modify, "CHANGE": _change, "RENAME": _rename, "ALTER": _alter,
    "CONVERT": _convert, "ALGORITHM": _algorithm, "LOCK": _algorithm, "ORDER": _order, "WITH": _validation,
    "WITHOUT": _validation, "ENABLE": _word_after("KEYS"), "DISABLE": _word_after("KEYS"), "FORCE": _word_after(),
    "SECONDARY_LOAD": _word_after(), "SECONDARY_UNLOAD": _word_after(), "DISCARD": _tablespace, "IMPORT": _tablespace,
    "TRUNCATE": _truncate, "EXCHANGE": _exchange, "PARTITION": _partition, "REORGANIZE": _partition,
    "COALESCE": _partition, "REBUILD": _partition, "OPTIMIZE": _partition, "ANALYZE": _partition, "CHECK": _partition,
    "REPAIR": _repair, "REMOVE": _partition,
}  # fmt: skip


def _table_option(cursor: TokenCursor) -> _Actions:
    if cursor.peek() == "ENGINE" and cursor.token(2 if cursor.peek(1) == "=" else 1).text.upper() == "BLACKHOLE":
        read_table_option(cursor)
        return [act.ChangeRows("ENGINE BLACKHOLE")]
    charset = read_table_option(cursor)
    return [] if charset is None else [act.DefaultCharset(charset)]


def read_create_index(cursor: TokenCursor, session: Session, kind: act.KeyKind) -> AlterTable:
    """What follows CREATE [UNIQUE …] INDEX."""
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    skip_key_options(cursor)
    cursor.expect("ON")
    table = cursor.table()
    skip_wait(cursor)
    columns, is_partial = key_columns(cursor.skip_brackets())
    _skip_index_rest(cursor)
    return AlterTable(table, (act.AddKey(act.KeySyntax(kind, name, columns, exists, is_partial)),), session)


def read_drop_index(cursor: TokenCursor, session: Session) -> AlterTable:
    """What follows DROP INDEX."""
    cursor.accept("IF", "EXISTS")
    name = cursor.name()
    cursor.expect("ON")
    table = cursor.table()
    skip_wait(cursor)
    _skip_index_rest(cursor)
    return AlterTable(table, (act.DropKey(name),), session)


def _skip_index_rest(cursor: TokenCursor) -> None:
    skip_key_options(cursor)
    while cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept("=")
        cursor.word()
        skip_key_options(cursor)
    cursor.finish()
