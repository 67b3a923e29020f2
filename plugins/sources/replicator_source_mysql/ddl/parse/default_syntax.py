"""The default in a column definition, as written."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.token_cursor import TokenCursor
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError


class Form(enum.Enum):
    """How the default is written."""

    NONE = "none"
    NULL = "NULL"
    TEXT = "string"
    NUMBER = "number"
    HEX = "hexadecimal literal"
    BIT = "bit literal"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class DefaultSyntax:
    """A default; `text` holds the characters of a string, a number with its sign, or the digits of a HEX or BIT."""

    form: Form
    text: str = ""


NO_DEFAULT: Final = DefaultSyntax(Form.NONE)
_EXPRESSION: Final = DefaultSyntax(Form.EXPRESSION)
_LITERALS = {Kind.STRING: Form.TEXT, Kind.HEX: Form.HEX, Kind.BIT: Form.BIT}
_WORDS = {
    "NULL": DefaultSyntax(Form.NULL),
    "TRUE": DefaultSyntax(Form.NUMBER, "1"),
    "FALSE": DefaultSyntax(Form.NUMBER, "0"),
}


def read_default(cursor: TokenCursor, session: Session) -> DefaultSyntax:
    """Pass what follows DEFAULT."""
    if cursor.peek() == "(":
        return _bracketed(cursor, session)
    literal = _literal(cursor)
    if literal is not None:
        return literal
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.table()
        return _EXPRESSION
    skip_function(cursor)
    return _EXPRESSION


def _bracketed(cursor: TokenCursor, session: Session) -> DefaultSyntax:
    """An expression; MariaDB keeps one that is a mere literal as a constant."""
    inside = cursor.skip_brackets()
    while session.is_mariadb and inside and _is_mark(inside[0], "(") and _is_mark(inside[-1], ")"):
        inside = inside[1:-1]
    if not session.is_mariadb:
        return _EXPRESSION
    within = TokenCursor(inside, "")
    try:
        literal = _literal(within)
    except UnreadError:
        return _EXPRESSION
    return literal if literal is not None and within.done else _EXPRESSION


def _is_mark(token: Token, text: str) -> bool:
    return token.kind is Kind.MARK and token.text == text


def _literal(cursor: TokenCursor) -> DefaultSyntax | None:
    word = cursor.peek()
    if word in _WORDS:
        cursor.take()
        return _WORDS[word]
    if word in {"+", "-"} or cursor.token().kind is Kind.NUMBER or word == ".":
        return DefaultSyntax(Form.NUMBER, _number(cursor))
    if word.startswith("_") and cursor.token(1).kind in _LITERALS:
        return _introduced(cursor, word)
    if word in {"DATE", "TIME", "TIMESTAMP"} and cursor.token(1).kind is Kind.STRING:
        cursor.take()
    form = _LITERALS.get(cursor.token().kind)
    return None if form is None else DefaultSyntax(form, _joined(cursor, form))


def _introduced(cursor: TokenCursor, word: str) -> DefaultSyntax:
    """`_latin1'text'`: the bytes of a literal in another character set are not converted unless they are ASCII."""
    cursor.take()
    form = _LITERALS[cursor.token().kind]
    text = _joined(cursor, form)
    is_plain = form is Form.TEXT and (text.isascii() or word.lower() in {"_utf8mb4", "_utf8mb3", "_utf8"})
    if not is_plain:
        raise UnreadError("a default is written in a character set of its own")
    return DefaultSyntax(form, text)


def _joined(cursor: TokenCursor, form: Form) -> str:
    text = cursor.take().text
    while form is Form.TEXT and cursor.token().kind is Kind.STRING:
        text += cursor.take().text
    return text


def _number(cursor: TokenCursor) -> str:
    sign = cursor.accept_any("+", "-")
    point = cursor.accept_any(".")
    token = cursor.take()
    if token.kind is Kind.WORD and point == "" and _is_exponent(token.text):
        return _exponent(cursor, sign, token.text)
    if token.kind is Kind.WORD and point and _is_exponent(token.text):
        return _exponent(cursor, sign, "." + token.text)
    if token.kind is not Kind.NUMBER:
        raise UnreadError("a default is no literal")
    text = token.text + ("0" if token.text.endswith(".") else "")
    return sign.strip("+") + ("0." if point else "") + text


def _is_exponent(text: str) -> bool:
    mantissa, _, rest = text.lower().partition("e")
    return mantissa.replace(".", "", 1).isdigit() and (not rest or rest.isdigit())


def _exponent(cursor: TokenCursor, sign: str, text: str) -> str:
    """`1e+5` may be several tokens."""
    if text.lower().endswith("e"):
        text += cursor.accept_any("+", "-") + cursor.take().text
    return sign.strip("+") + text


def skip_function(cursor: TokenCursor) -> None:
    """Pass `NOW(3)`, `CURRENT_TIMESTAMP`, `uuid()`, `db.f(1)`."""
    cursor.name()
    if cursor.accept("."):
        cursor.name()
    if cursor.peek() == "(":
        cursor.skip_brackets()
