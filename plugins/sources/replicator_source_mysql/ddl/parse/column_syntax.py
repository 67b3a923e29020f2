"""Column definitions of CREATE TABLE and ALTER TABLE, as written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, UnreadError
from replicator_source_mysql.ddl.parse.default_syntax import NO_DEFAULT, DefaultSyntax, read_default, skip_function
from replicator_source_mysql.ddl.parse.type_syntax import TypeSyntax, read_type, with_attribute
from replicator_source_mysql.types.charset_names import charset_name, collation_charset

_NAMED_VALUES = {"COLUMN_FORMAT", "STORAGE"}
_TEXT_VALUES = {"COMMENT", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"}
_END = {"", ",", ")", "FIRST", "AFTER", "PARTITION", "REMOVE", ";"}


@dataclass(frozen=True, slots=True)
class ColumnSyntax:
    """One column definition.

    Attributes:
        name: Its name.
        type: Its type, as written.
        nullable: What it says of NULL; None when it says nothing.
        charset: Its own character set; empty for the table's.
        default: What it says of its default.
        is_generated: Whether it is computed from others.
        is_virtual: Whether it is, and not stored.
        is_invisible: Whether it is.
        is_primary: Whether it says PRIMARY KEY.
        is_unique: Whether it says UNIQUE.
        is_auto_increment: Whether it is numbered by the server.
        updates_itself: Whether it says ON UPDATE.
    """

    name: str
    type: TypeSyntax
    nullable: bool | None = None
    charset: str = ""
    default: DefaultSyntax = NO_DEFAULT
    is_generated: bool = False
    is_virtual: bool = False
    is_invisible: bool = False
    is_primary: bool = False
    is_unique: bool = False
    is_auto_increment: bool = False
    updates_itself: bool = False


def read_column(cursor: TokenCursor, session: Session) -> ColumnSyntax:
    """Pass `name type attributes…`, up to a comma, a closing bracket, FIRST, AFTER or the end."""
    name = cursor.name()
    kind = read_type(cursor, session)
    column = ColumnSyntax(name, kind)
    if kind.name == "serial":
        column = replace(column, nullable=False, is_auto_increment=True, is_unique=True)
    while not _is_over(cursor):
        column = _attribute(cursor, column, session)
    return column


def _is_over(cursor: TokenCursor) -> bool:
    return cursor.done or (cursor.peek() in _END and cursor.token().kind is not Kind.NAME)


def _attribute(cursor: TokenCursor, column: ColumnSyntax, session: Session) -> ColumnSyntax:
    for read in (_type_attribute, _null_attribute, _key_attribute, _generation, _text_attribute):
        changed = read(cursor, column)
        if changed is not None:
            return changed
    if cursor.accept("DEFAULT"):
        return replace(column, default=read_default(cursor, session))
    if cursor.accept("ON", "UPDATE"):
        skip_function(cursor)
        return replace(column, updates_itself=True)
    _passed_over(cursor)
    return column


def _type_attribute(cursor: TokenCursor, column: ColumnSyntax) -> ColumnSyntax | None:
    kind = with_attribute(column.type, cursor.peek())
    if kind is not None:
        cursor.take()
        return replace(column, type=kind)
    if cursor.accept("COMPRESSED"):
        if cursor.accept("="):
            cursor.take()
        return replace(column, type=replace(column.type, is_compressed=True))
    return None


def _null_attribute(cursor: TokenCursor, column: ColumnSyntax) -> ColumnSyntax | None:
    if cursor.accept("NOT", "NULL"):
        return replace(column, nullable=False)
    if cursor.accept("NULL"):
        return replace(column, nullable=True)
    if cursor.accept("INVISIBLE"):
        return replace(column, is_invisible=True)
    if cursor.accept("VISIBLE"):
        return replace(column, is_invisible=False)
    return None


def _key_attribute(cursor: TokenCursor, column: ColumnSyntax) -> ColumnSyntax | None:
    if cursor.accept("AUTO_INCREMENT"):
        return replace(column, is_auto_increment=True)
    if cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        return replace(column, is_auto_increment=True, is_unique=True, nullable=False)
    if cursor.accept("PRIMARY"):
        cursor.accept("KEY")
        return replace(column, is_primary=True)
    if cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        return replace(column, is_unique=True)
    if cursor.accept("KEY"):
        return replace(column, is_primary=True)
    return None


def _generation(cursor: TokenCursor, column: ColumnSyntax) -> ColumnSyntax | None:
    if cursor.accept("GENERATED"):
        cursor.expect("ALWAYS")
    if not cursor.accept("AS"):
        return None
    if cursor.peek() == "ROW":
        raise UnreadError("the table is system-versioned, which is not supported")
    cursor.skip_brackets()
    is_virtual = cursor.accept_any("VIRTUAL", "STORED", "PERSISTENT") in {"VIRTUAL", ""}
    return replace(column, is_generated=True, is_virtual=is_virtual)


def _text_attribute(cursor: TokenCursor, column: ColumnSyntax) -> ColumnSyntax | None:
    named = read_charset(cursor)
    if named is not None:
        return replace(column, charset=named or column.charset)
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        return replace(column, charset=collation_charset(cursor.name_or_text()) or column.charset)
    return None


def read_charset(cursor: TokenCursor) -> str | None:
    """Pass CHARACTER SET and its name; empty when it is DEFAULT, None when no character set comes next."""
    if not (cursor.accept("CHARACTER", "SET") or cursor.accept("CHAR", "SET") or cursor.accept("CHARSET")):
        return None
    cursor.accept("=")
    name = cursor.name_or_text()
    return "" if name.lower() == "default" else charset_name(name)


def _passed_over(cursor: TokenCursor) -> None:
    """Attributes that say nothing about rows."""
    word = cursor.peek()
    if word in _TEXT_VALUES or word in _NAMED_VALUES:
        cursor.take()
        cursor.accept("=")
        cursor.take()
    elif cursor.accept("SRID"):
        cursor.integer()
    elif cursor.accept("CONSTRAINT"):
        if cursor.peek() != "CHECK":
            cursor.name()
        _check(cursor)
    elif word == "CHECK":
        _check(cursor)
    elif word == "REFERENCES":
        skip_references(cursor)
    elif cursor.accept_any("WITH", "WITHOUT"):
        cursor.expect("SYSTEM", "VERSIONING")
    elif not cursor.accept("NOT", "SECONDARY"):
        _engine_value(cursor)


def _check(cursor: TokenCursor) -> None:
    cursor.expect("CHECK")
    cursor.skip_brackets()
    skip_enforced(cursor)


def skip_enforced(cursor: TokenCursor) -> None:
    """Pass ENFORCED or NOT ENFORCED."""
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")


def skip_references(cursor: TokenCursor) -> None:
    """Pass REFERENCES and everything that belongs to it."""
    cursor.expect("REFERENCES")
    cursor.table()
    if cursor.peek() == "(":
        cursor.skip_brackets()
    if cursor.accept("MATCH"):
        cursor.word()
    while cursor.accept("ON", "DELETE") or cursor.accept("ON", "UPDATE"):
        if not (cursor.accept("SET", "NULL") or cursor.accept("SET", "DEFAULT") or cursor.accept("NO", "ACTION")):
            cursor.word()


def _engine_value(cursor: TokenCursor) -> None:
    """`name=value` of a storage engine (MariaDB), also `REF_SYSTEM_ID=4326`."""
    cursor.name()
    cursor.expect("=")
    cursor.take()
