"""MariaDB's `SET STATEMENT variable = value, … FOR statement`: the statement, and the session it runs in.

The server parses the whole text in the mode of the session around it, and runs the statement with the variables set. The
event has the session of the run. So quotes, escapes and REAL are read as the event says only if `sql_mode` is not set here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError

_ON, _OFF = {"1", "ON", "TRUE"}, {"0", "OFF", "FALSE"}


@dataclass(frozen=True, slots=True)
class Inner:
    """The statement after FOR.

    Attributes:
        tokens: Its tokens.
        session: The session it runs in.
        doubt: Why its text may mean something else than the tokens say; empty when it cannot.
        hides_tables: Whether the doubt is also about the names of its tables.
    """

    tokens: Sequence[Token]
    session: Session
    doubt: str = ""
    hides_tables: bool = False


def inner_statement(tokens: Sequence[Token], text: str, session: Session) -> Inner:
    """The statement that `tokens` run, without `SET STATEMENT … FOR` before it, however often.

    Raises:
        UnreadError: When there is no FOR.
    """
    inner = Inner(tokens, session)
    while session.is_mariadb and [_word(token) for token in inner.tokens[:2]] == ["SET", "STATEMENT"]:
        inner = _without_one(inner, text)
    return inner


def _without_one(outer: Inner, text: str) -> Inner:
    tokens = outer.tokens
    end = _find_for(tokens)
    inner = replace(outer, tokens=tokens[end + 1 :])
    for name, value in _assignments(tokens[2:end]):
        if name == "sql_mode":
            inner = _doubted(inner, text)
        elif name == "explicit_defaults_for_timestamp":
            inner = replace(inner, session=_with_timestamps(inner.session, value))
        elif name.startswith(("character_set_", "collation_")):
            inner = replace(inner, session=replace(inner.session, server_charset=""))
    return inner


def _find_for(tokens: Sequence[Token]) -> int:
    """The FOR that ends the list of variables: brackets may hold others, as in SUBSTRING(… FOR …)."""
    depth = 0
    for rank, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")") if token.kind is Kind.MARK else 0
        if depth == 0 and _word(token) == "FOR":
            return rank
    raise UnreadError("SET STATEMENT has no FOR")


def _assignments(tokens: Sequence[Token]) -> list[tuple[str, str]]:
    """Names in lower case, with the value where it is one word, number or string."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")") if token.kind is Kind.MARK else 0
        if depth == 0 and token.kind is Kind.MARK and token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    # The value is what follows `=`; the name is before it, after GLOBAL, SESSION or a dot.
    found = []
    for part in parts:
        equals = [rank for rank, token in enumerate(part) if token.kind is Kind.MARK and token.text in {"=", ":="}][:1]
        if not equals or equals[0] == 0:
            raise UnreadError("SET STATEMENT sets something that is not known")
        value = part[equals[0] + 1 :]
        found.append((part[equals[0] - 1].text.lower(), value[0].text.upper() if len(value) == 1 else ""))
    return found


def _doubted(inner: Inner, text: str) -> Inner:
    """Another sql_mode than the one the text was parsed in."""
    if '"' in text or "\\" in text:
        doubt = "SET STATEMENT changes sql_mode, and the text has double quotes or backslashes"
        return replace(inner, doubt=doubt, hides_tables=True)
    if any(_word(token) == "REAL" for token in inner.tokens):
        return replace(inner, doubt="SET STATEMENT changes sql_mode, which decides what REAL is")
    return inner


def _with_timestamps(session: Session, value: str) -> Session:
    if value not in _ON | _OFF:
        raise UnreadError("SET STATEMENT sets explicit_defaults_for_timestamp to something that is not known")
    return replace(session, has_explicit_timestamps=value in _ON)


def _word(token: Token) -> str:
    return token.text.upper() if token.kind is Kind.WORD else ""
