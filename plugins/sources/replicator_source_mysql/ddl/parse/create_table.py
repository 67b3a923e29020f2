"""CREATE TABLE."""

from __future__ import annotations

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, UnreadError
from replicator_source_mysql.ddl.parse.action import KeySyntax
from replicator_source_mysql.ddl.parse.column_syntax import ColumnSyntax, read_charset, read_column
from replicator_source_mysql.ddl.parse.effect import CreateTable, CreateTableLike, Effect
from replicator_source_mysql.ddl.parse.key_syntax import column_keys, read_key, starts_key
from replicator_source_mysql.types.charset_names import collation_charset

_OPTIONS = {
    "AUTO_INCREMENT", "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "PAGE_CHECKSUM", "COMMENT",
    "COMPRESSION", "CONNECTION", "DELAY_KEY_WRITE", "ENCRYPTION", "ENGINE", "TYPE", "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_ENGINE", "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS",
    "PACK_KEYS", "PASSWORD", "ROW_FORMAT", "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STORAGE",
    "TRANSACTIONAL", "NODEGROUP", "IETF_QUOTES",
}  # fmt: skip
_REST = {"PARTITION", "SELECT", "AS", "IGNORE", "REPLACE", "WITH", "START", "(", "TABLE", "VALUES"}


def read_create_table(cursor: TokenCursor, session: Session, *, or_replace: bool) -> Effect:
    """What follows CREATE [OR REPLACE] TABLE."""
    exists = cursor.accept("IF", "NOT", "EXISTS")
    table = cursor.table()
    if cursor.accept("LIKE"):
        return CreateTableLike(table, cursor.table(), exists, or_replace)
    cursor.expect("(")
    if cursor.accept("LIKE"):
        like = cursor.table()
        cursor.expect(")")
        return CreateTableLike(table, like, exists, or_replace)
    columns, keys = _elements(cursor, session)
    charset = read_table_options(cursor) or ""
    _finish(cursor)
    return CreateTable(table, tuple(columns), tuple(keys), charset, exists, or_replace, session)


def _elements(cursor: TokenCursor, session: Session) -> tuple[list[ColumnSyntax], list[KeySyntax]]:
    columns: list[ColumnSyntax] = []
    keys: list[KeySyntax] = []
    while True:
        if starts_key(cursor):
            key = read_key(cursor)
            keys += [key] if isinstance(key, KeySyntax) else []
        else:
            column = read_column(cursor, session)
            columns.append(column)
            keys += column_keys(column)
        if cursor.accept(")"):
            return columns, keys
        cursor.expect(",")


def read_table_options(cursor: TokenCursor) -> str | None:
    """Pass table options; the default character set they name, empty for DEFAULT, None when they name none."""
    charset: str | None = None
    while not cursor.done and (cursor.peek() not in _REST or cursor.token().kind is Kind.NAME):
        named = read_table_option(cursor)
        charset = named if named is not None else charset
        cursor.accept(",")
    return charset


def read_table_option(cursor: TokenCursor) -> str | None:
    """Pass one option; the character set it names."""
    if cursor.accept("DEFAULT") and cursor.peek() not in {"CHARACTER", "CHAR", "CHARSET", "COLLATE"}:
        raise UnreadError("a table option is not known")
    named = read_charset(cursor)
    if named is not None:
        return named
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        return collation_charset(cursor.name_or_text()) or None
    _skip_option(cursor)
    return None


def _skip_option(cursor: TokenCursor) -> None:
    if cursor.accept("DATA", "DIRECTORY") or cursor.accept("INDEX", "DIRECTORY"):
        cursor.accept("=")
        cursor.take()
    elif cursor.accept("UNION"):
        cursor.accept("=")
        cursor.skip_brackets()
    elif cursor.accept("TABLESPACE"):
        cursor.accept("=")
        cursor.name()
        if cursor.accept("STORAGE"):
            cursor.word()
    elif cursor.has_name() and (cursor.peek() in _OPTIONS or cursor.peek(1) == "="):
        # An option with `=` that is not listed belongs to a storage engine (MariaDB).
        cursor.name()
        cursor.accept("=")
        cursor.take()
    else:
        raise UnreadError("a table option is not known")


def _finish(cursor: TokenCursor) -> None:
    """What may follow the options: partitions say nothing here, a SELECT adds columns."""
    if cursor.accept("WITH", "SYSTEM", "VERSIONING"):
        raise UnreadError("the table is system-versioned, which is not supported")
    if cursor.accept("PARTITION"):
        while not cursor.done and cursor.peek() not in {"SELECT", "AS", "START", "IGNORE", "REPLACE"}:
            if cursor.peek() == "(":
                cursor.skip_brackets()
            else:
                cursor.take()
    # The form in which a log of rows carries CREATE TABLE … SELECT (MySQL 8.0.21): rows follow as events.
    cursor.accept("START", "TRANSACTION")
    if not cursor.done:
        raise UnreadError("the table takes columns from a SELECT, or an option is not known")
