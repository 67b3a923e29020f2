"""What the text of a QUERY event does to tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replicator_sdk.schema import TableId
from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.set_statement import inner_statement
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError, tokenize
from replicator_source_mysql.ddl.parse.action import KeyKind
from replicator_source_mysql.ddl.parse.alter_table import (
    read_alter_table,
    read_create_index,
    read_drop_index,
    skip_wait,
)  # fmt: skip
from replicator_source_mysql.ddl.parse.column_syntax import read_charset
from replicator_source_mysql.ddl.parse.create_table import read_create_table
from replicator_source_mysql.ddl.parse.dml import changed_tables, empties
from replicator_source_mysql.ddl.parse.effect import (
    AlterDatabase,
    CreateDatabase,
    DropDatabase,
    DropTables,
    Effect,
    Harmless,
    RenameTables,
    RepairTables,
    StatementDml,
    TruncateTable,
    Unreadable,
)  # fmt: skip
from replicator_source_mysql.types.charset_names import collation_charset

_HARMLESS = {
    "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA", "SET", "USE", "GRANT", "REVOKE", "ANALYZE",
    "OPTIMIZE", "FLUSH", "CHECK", "CHECKSUM", "LOCK", "UNLOCK", "KILL", "RESET", "PURGE", "INSTALL", "UNINSTALL",
    "SHUTDOWN", "CHANGE", "STOP", "SHOW", "DESCRIBE", "EXPLAIN", "CACHE", "BINLOG", "CLONE", "BACKUP", "DEALLOCATE",
}  # fmt: skip
_DML = {
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "LOAD",
    "WITH",
    "SELECT",
    "CALL",
    "DO",
    "HANDLER",
    "(",
    "VALUES",
    "TABLE",
}
_ANALYZED = {"TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"}
_OTHER_OBJECTS = {
    "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE", "UNDO",
    "RESOURCE", "SEQUENCE", "SPATIAL_REFERENCE_SYSTEM", "INSTANCE", "PACKAGE", "LIBRARY", "MASKING", "AGGREGATE", "DEFINER",
    "ALGORITHM", "SQL", "PREPARE", "TEMPORARY", "CATALOG",
}  # fmt: skip
_INDEX_KINDS = {"UNIQUE": KeyKind.UNIQUE, "FULLTEXT": KeyKind.PLAIN, "SPATIAL": KeyKind.PLAIN, "VECTOR": KeyKind.PLAIN}
_HEAD_WORDS = 4


def read_statement(text: str, session: Session) -> tuple[Effect, ...]:
    """What `text` does, in order.

    It is never guessed: what is not understood comes back as `Unreadable`, with the tables it can touch.

    Args:
        text: The statement, decoded with the character set of its session.
        session: Whose statement it is.
    """
    try:
        inner = inner_statement(tokenize(text, session), text, session)
    except UnreadError as err:
        return (Unreadable(None, str(err), _first_words(text)),)
    tokens, session = inner.tokens, inner.session
    if not tokens:
        return (Harmless(),)
    cursor = TokenCursor(tokens, session.database)
    if inner.doubt and cursor.peek() not in _HARMLESS:
        named = None if inner.hides_tables else _named(cursor)
        return (Unreadable(named, inner.doubt, _head(tokens)),)
    try:
        effects = _read(cursor, text, session)
    except UnreadError as err:
        return (Unreadable(_named(TokenCursor(tokens, session.database)), str(err), _head(tokens)),)
    return tuple(effects)


def _read(cursor: TokenCursor, text: str, session: Session) -> list[Effect]:
    head = cursor.peek()
    if head in _DML:
        emptied = empties(cursor, text)
        return [TruncateTable(emptied) if emptied else StatementDml(changed_tables(text, session))]
    if head == "ANALYZE" and cursor.peek(1) not in _ANALYZED:
        return [StatementDml(())]  # MariaDB: runs a statement that changes rows, and shows how
    if head in _HARMLESS:
        return [Harmless()]
    read = _STATEMENTS.get(head)
    if read is None:
        raise UnreadError("the statement is not known")
    cursor.take()
    effects = read(cursor, session)
    if effects != [Harmless()]:
        cursor.finish()
    return effects


def _create(cursor: TokenCursor, session: Session) -> list[Effect]:
    replaces = cursor.accept("OR", "REPLACE")
    if cursor.peek() == "SPATIAL" and cursor.peek(1) == "REFERENCE":
        return [Harmless()]
    if cursor.accept("TABLE"):
        _refuse_other_grammar(session)
        return [read_create_table(cursor, session, or_replace=replaces)]
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return [_create_database(cursor, session, replaces=replaces)]
    cursor.accept_any("ONLINE", "OFFLINE")
    kind = _INDEX_KINDS.get(cursor.accept_any(*_INDEX_KINDS), KeyKind.PLAIN)
    if cursor.accept("INDEX"):
        made = read_create_index(cursor, session, kind)
        return [made]
    return _other_object(cursor)


def _refuse_other_grammar(session: Session) -> None:
    if session.has_other_grammar:
        raise UnreadError("sql_mode ORACLE or MSSQL gives types another meaning")


def _other_object(cursor: TokenCursor) -> list[Effect]:
    if cursor.peek() not in _OTHER_OBJECTS or cursor.token().kind is not Kind.WORD:
        raise UnreadError("the statement is about an object that is not known")
    return [Harmless()]


def _create_database(cursor: TokenCursor, session: Session, *, replaces: bool) -> CreateDatabase:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    return CreateDatabase(name, _database_charset(cursor, session) or session.server_charset, exists, replaces)


def _database_charset(cursor: TokenCursor, session: Session) -> str:
    charset = ""
    while not cursor.done:
        cursor.accept("DEFAULT")
        named = read_charset(cursor)
        if named is not None:
            charset = named or session.server_charset
        elif cursor.accept("COLLATE"):
            cursor.accept("=")
            charset = collation_charset(cursor.name_or_text()) or charset
        else:
            cursor.name()
            if cursor.accept("ONLY"):
                cursor.accept("=")
            cursor.accept("=")
            cursor.take()
    return charset


def _alter(cursor: TokenCursor, session: Session) -> list[Effect]:
    cursor.accept_any("ONLINE", "OFFLINE")
    ignore = cursor.accept("IGNORE")
    if cursor.accept("TABLE"):
        _refuse_other_grammar(session)
        return [read_alter_table(cursor, session, ignore=ignore)]
    if cursor.accept_any("DATABASE", "SCHEMA"):
        named = cursor.has_name() and cursor.peek() not in {"CHARACTER", "CHARSET", "DEFAULT", "COLLATE", "COMMENT"}
        name = cursor.name() if named or cursor.token().kind is Kind.NAME else session.database
        charset = _database_charset(cursor, session)
        return [AlterDatabase(name, charset) if charset else Harmless()]
    return _other_object(cursor)


def _drop(cursor: TokenCursor, session: Session) -> list[Effect]:
    if cursor.accept_any("TABLE", "TABLES"):
        exists = cursor.accept("IF", "EXISTS")
        tables = cursor.tables()
        skip_wait(cursor)
        cursor.accept_any("RESTRICT", "CASCADE")
        return [DropTables(tuple(tables), exists)]
    if cursor.accept_any("DATABASE", "SCHEMA"):
        cursor.accept("IF", "EXISTS")
        return [DropDatabase(cursor.name())]
    cursor.accept_any("ONLINE", "OFFLINE")
    if cursor.accept("INDEX"):
        return [read_drop_index(cursor, session)]
    if cursor.peek() == "SPATIAL":
        return [Harmless()]
    return _other_object(cursor)


def _rename(cursor: TokenCursor, session: Session) -> list[Effect]:  # noqa: ARG001
    if cursor.accept("USER"):
        return [Harmless()]
    if not cursor.accept_any("TABLE", "TABLES"):
        raise UnreadError("the statement renames something that is not known")
    cursor.accept("IF", "EXISTS")
    pairs: list[tuple[TableId, TableId]] = []
    while not pairs or cursor.accept(","):
        old = cursor.table()
        skip_wait(cursor)
        cursor.expect("TO")
        pairs.append((old, cursor.table()))
    return [RenameTables(tuple(pairs))]


def _truncate(cursor: TokenCursor, session: Session) -> list[Effect]:  # noqa: ARG001
    cursor.accept("TABLE")
    table = cursor.table()
    skip_wait(cursor)
    cursor.accept_any("DROP", "REUSE")
    cursor.accept("STORAGE")
    return [TruncateTable(table)]


def _repair(cursor: TokenCursor, session: Session) -> list[Effect]:  # noqa: ARG001
    cursor.accept_any("NO_WRITE_TO_BINLOG", "LOCAL")
    if not cursor.accept_any("TABLE", "TABLES"):
        return [Harmless()]
    tables = cursor.tables()
    while not cursor.done:
        cursor.take()
    return [RepairTables(tuple(tables))]


_STATEMENTS: dict[str, Callable[[TokenCursor, Session], list[Effect]]] = {
    "CREATE": _create, "ALTER": _alter, "DROP": _drop, "RENAME": _rename, "TRUNCATE": _truncate,
    "REPAIR": _repair,
}  # fmt: skip


def _named(cursor: TokenCursor) -> tuple[TableId, ...] | None:
    """The tables an unread statement can touch, when its head shows them."""
    try:
        first = _table_of_head(cursor)
        if first is None:
            return None
        found = [first]
        while not cursor.done:
            if _leads_to_table(cursor):
                found.append(cursor.table())
            else:
                cursor.take()
    except UnreadError:
        return None
    return tuple(dict.fromkeys(found))


def _table_of_head(cursor: TokenCursor) -> TableId | None:
    head = cursor.accept_any("CREATE", "ALTER", "TRUNCATE", "DROP")
    cursor.accept("OR", "REPLACE")
    while cursor.accept_any("ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"):
        pass
    if head in {"CREATE", "ALTER", "TRUNCATE"} and cursor.accept("TABLE"):
        if not cursor.accept("IF", "NOT", "EXISTS"):
            cursor.accept("IF", "EXISTS")
        return cursor.table()
    if head in {"CREATE", "DROP"} and cursor.accept("INDEX"):
        while cursor.peek() != "ON":
            cursor.take()
        cursor.take()
        return cursor.table()
    return None


def _leads_to_table(cursor: TokenCursor) -> bool:
    """Pass words that another table's name follows; `RENAME COLUMN a TO b` names columns, and counts to be safe."""
    for words in (("WITH", "TABLE"), ("TO", "TABLE"), ("CONVERT", "TABLE"), ("RENAME", "TO"), ("RENAME", "AS")):
        if cursor.accept(*words):
            return True
    return cursor.accept("RENAME") and cursor.peek() not in {"COLUMN", "INDEX", "KEY"}


def _head(tokens: Sequence[Token]) -> str:
    """The first words; literals are data and stay out."""
    shown = []
    for token in tokens[: 2 * _HEAD_WORDS]:
        if token.kind not in {Kind.WORD, Kind.NAME} and token.text != ".":
            break
        shown.append(f"`{token.text}`" if token.kind is Kind.NAME else token.text)
    return " ".join(shown).replace(" . ", ".")


def _first_words(text: str) -> str:
    words = []
    for word in text.split()[:_HEAD_WORDS]:
        if not word.replace("_", "").isalnum():
            break
        words.append(word)
    return " ".join(words)
