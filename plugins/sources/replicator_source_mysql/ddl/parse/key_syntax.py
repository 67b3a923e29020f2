"""Keys, indexes and constraints in CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError
from replicator_source_mysql.ddl.parse.action import KeyKind, KeySyntax
from replicator_source_mysql.ddl.parse.column_syntax import ColumnSyntax, skip_enforced, skip_references

_HEADS = {
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "INDEX",
    "KEY",
    "FULLTEXT",
    "SPATIAL",
    "VECTOR",
    "FOREIGN",
    "CHECK",
    "PERIOD",
}
_OPTION_VALUES = {
    "KEY_BLOCK_SIZE", "COMMENT", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "CLUSTERING",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Nothing:
    """A constraint that says nothing about which rows are the same."""


def starts_key(cursor: TokenCursor) -> bool:
    """Whether a key or constraint comes next rather than a column."""
    if cursor.token().kind is not Kind.WORD or cursor.peek() not in _HEADS:
        return False
    # PERIOD and VECTOR are no reserved words: a column may have the name.
    if cursor.peek() == "PERIOD":
        return cursor.peek(1) == "FOR"
    return cursor.peek() != "VECTOR" or cursor.peek(1) in {"INDEX", "KEY"}


def read_key(cursor: TokenCursor) -> KeySyntax | Nothing:
    """Pass one key or constraint."""
    if cursor.accept("PERIOD", "FOR"):
        if cursor.peek() == "SYSTEM_TIME":
            raise UnreadError("the table is system-versioned, which is not supported")
        cursor.name()
        cursor.skip_brackets()
        return Nothing()
    symbol = _symbol(cursor)
    if cursor.accept("PRIMARY", "KEY"):
        exists = cursor.accept("IF", "NOT", "EXISTS")
        return _rest(cursor, KeyKind.PRIMARY, "", exists)
    if cursor.accept("UNIQUE"):
        cursor.accept_any("INDEX", "KEY")
        return _rest(cursor, KeyKind.UNIQUE, symbol, cursor.accept("IF", "NOT", "EXISTS"))
    if cursor.accept("FOREIGN", "KEY"):
        return _foreign(cursor, symbol)
    if cursor.accept("CHECK"):
        cursor.skip_brackets()
        skip_enforced(cursor)
        return Nothing()
    if cursor.accept_any("FULLTEXT", "SPATIAL", "VECTOR"):
        cursor.accept_any("INDEX", "KEY")
    elif not cursor.accept_any("INDEX", "KEY"):
        raise UnreadError("a constraint is not known")
    return _rest(cursor, KeyKind.PLAIN, "", cursor.accept("IF", "NOT", "EXISTS"))


def _symbol(cursor: TokenCursor) -> str:
    if not cursor.accept("CONSTRAINT"):
        return ""
    cursor.accept("IF", "NOT", "EXISTS")
    if cursor.peek() in {"PRIMARY", "UNIQUE", "FOREIGN", "CHECK"}:
        return ""
    return cursor.name()


def _rest(cursor: TokenCursor, kind: KeyKind, symbol: str, exists: bool) -> KeySyntax:
    name = symbol
    if cursor.peek() not in {"(", "USING", "TYPE"} or cursor.token().kind is Kind.NAME:
        name = cursor.name()
    skip_key_options(cursor)
    columns, is_partial = key_columns(cursor.skip_brackets())
    skip_key_options(cursor)
    return KeySyntax(kind, name if kind is not KeyKind.PRIMARY else "", columns, exists, is_partial)


def _foreign(cursor: TokenCursor, symbol: str) -> KeySyntax:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name() if cursor.peek() != "(" else ""
    columns, _ = key_columns(cursor.skip_brackets())
    skip_references(cursor)
    return KeySyntax(KeyKind.FOREIGN, symbol or name, columns, exists)


def skip_key_options(cursor: TokenCursor) -> None:
    """Pass USING, COMMENT, KEY_BLOCK_SIZE, VISIBLE and the like."""
    while True:
        if cursor.accept_any("USING", "TYPE"):
            cursor.word()
        elif cursor.peek() in _OPTION_VALUES:
            cursor.take()
            cursor.accept("=")
            cursor.take()
        elif cursor.accept("WITH", "PARSER"):
            cursor.name()
        elif cursor.accept_any("VISIBLE", "INVISIBLE", "IGNORED") or cursor.accept("NOT", "IGNORED"):
            continue
        elif cursor.has_name() and cursor.peek(1) == "=" and cursor.peek() not in {"ALGORITHM", "LOCK"}:
            # An option of the storage engine (MariaDB), `DISTANCE=cosine`.
            cursor.take()
            cursor.take()
            cursor.take()
        else:
            return


def key_columns(tokens: list[Token]) -> tuple[tuple[str, ...], bool]:
    """Columns of a key, none when a part is an expression; and whether a part is only the beginning of a column."""
    cursor, names, is_partial = TokenCursor(tokens, ""), [], False
    while not cursor.done:
        if cursor.peek() == "(":
            return (), False
        names.append(cursor.name())
        if cursor.peek() == "(":
            cursor.skip_brackets()
            is_partial = True
        cursor.accept_any("ASC", "DESC")
        if cursor.accept("WITHOUT", "OVERLAPS"):
            raise UnreadError("a key WITHOUT OVERLAPS is not supported")
        if not cursor.done:
            cursor.expect(",")
    return tuple(names), is_partial


def column_keys(column: ColumnSyntax) -> list[KeySyntax]:
    """The keys in a column definition."""
    keys = [KeySyntax(KeyKind.PRIMARY, "", (column.name,))] if column.is_primary else []
    return keys + ([KeySyntax(KeyKind.UNIQUE, "", (column.name,))] if column.is_unique else [])
