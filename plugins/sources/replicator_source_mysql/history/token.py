r"""A statement's text as tokens: comments gone, executable comments opened, strings with their escapes resolved.

sqlglot finds where tokens begin and end. Its own rules for comments, keywords and escapes are switched off: it would take
executable comments for comments, `--` for one without the blank MySQL asks for, and drop the backslash of `\%`.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token as RawToken
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from replicator_source_mysql.history.session import Session

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_REST_OF_PIECES = (
    r"|`(?:[^`]++|``)*+`"
    r"|(?P<open>/\*{maker}!(?:\d{{5,6}})?)"
    r"|(?P<comment>/\*.*?\*/|--(?=[\s\x00-\x1f]|\Z)[^\n]*|\#[^\n]*)|(?P<close>\*/)"
)
_ESCAPED_QUOTED = r"{0}(?:[^{0}\\]++|\\.|{0}{0})*+{0}"
_PLAIN_QUOTED = r"{0}(?:[^{0}]++|{0}{0})*+{0}"


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"
    """A name or keyword without quotes."""
    NAME = "quoted name"
    STRING = "string"
    NUMBER = "number"
    HEX = "hexadecimal literal"
    BIT = "bit literal"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is without quotes and escapes, for HEX and BIT the digits alone."""

    kind: Kind
    text: str


class UnreadError(Exception):
    """The text is not understood; the message holds no literal of the statement."""


_KINDS = {
    TokenType.VAR: Kind.WORD,
    TokenType.IDENTIFIER: Kind.NAME,
    TokenType.STRING: Kind.STRING,
    TokenType.NATIONAL_STRING: Kind.STRING,
    TokenType.NUMBER: Kind.NUMBER,
    TokenType.HEX_STRING: Kind.HEX,
    TokenType.BIT_STRING: Kind.BIT,
}


@lru_cache(maxsize=4)
def _tokenizer(*, ansi_quotes: bool, backslash_escapes: bool) -> type[Tokenizer]:
    quotes, names = (["'"], ["`", '"']) if ansi_quotes else (["'", '"'], ["`"])
    escapes = [*quotes, *(["\\"] if backslash_escapes else [])]
    rules = {
        "QUOTES": quotes,
        "IDENTIFIERS": names,
        "STRING_ESCAPES": escapes,
        "KEYWORDS": {},
        "COMMENTS": [],
        "COMMANDS": set(),
    }
    return type("_Tokenizer", (MySQL.Tokenizer,), rules)


@lru_cache(maxsize=8)
def _pieces(*, ansi_quotes: bool, backslash_escapes: bool, is_mariadb: bool) -> re.Pattern[str]:
    string = _ESCAPED_QUOTED if backslash_escapes else _PLAIN_QUOTED
    quoted = string.format("'") + "|" + (_PLAIN_QUOTED if ansi_quotes else string).format('"')
    return re.compile(quoted + _REST_OF_PIECES.format(maker="M?" if is_mariadb else ""), re.DOTALL)


def open_comments(text: str, session: Session) -> str:
    """`text` without comments; the code in executable comments stands where they stood.

    A server that did not execute such a comment wrote it into its log as an ordinary one, so every one left counts.
    """
    depth = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal depth
        if found["open"]:
            depth += 1
            return " "
        if found["close"] and depth:
            depth -= 1
            return " "
        return " " if found["comment"] else found[0]

    pieces = _pieces(
        ansi_quotes=session.has_ansi_quotes,
        backslash_escapes=session.has_backslash_escapes,
        is_mariadb=session.is_mariadb,
    )
    return pieces.sub(replaced, text)


def tokenize(text: str, session: Session) -> list[Token]:
    """The tokens of `text`.

    Raises:
        UnreadError: When a quote is never closed, or the text is otherwise no SQL.
    """
    code = open_comments(text, session)
    kind = _tokenizer(ansi_quotes=session.has_ansi_quotes, backslash_escapes=session.has_backslash_escapes)
    try:
        raw = kind(dialect="mysql").tokenize(code)
    except (TokenError, ValueError):
        raise UnreadError("its quotes do not match") from None  # the cause holds the statement, literals and all
    return [_token(group, code, session) for group in _glued(raw)]


def _glued(raw: list[RawToken]) -> list[list[RawToken]]:
    """Names that begin with a digit (`1a`, `2024_orders`) come in two tokens that touch."""
    groups: list[list[RawToken]] = []
    for token in raw:
        last = groups[-1] if groups else None
        if last and token.token_type in {TokenType.VAR, TokenType.NUMBER} and _touches(last[-1], token):
            last.append(token)
        else:
            groups.append([token])
    return groups


def _touches(before: RawToken, token: RawToken) -> bool:
    return token.start == before.end + 1 and before.token_type in {TokenType.VAR, TokenType.NUMBER}


def _token(group: list[RawToken], code: str, session: Session) -> Token:
    raw = group[0]
    if len(group) > 1:
        return Token(Kind.WORD, code[raw.start : group[-1].end + 1])
    kind = _KINDS.get(raw.token_type, Kind.MARK)
    if kind is Kind.STRING:
        return Token(kind, _unquoted(code[raw.start : raw.end + 1].lstrip("nN"), session))
    if kind is Kind.MARK and raw.text.strip() and raw.text[0] in "'\"`":
        raise UnreadError("its quotes do not match")
    return Token(kind, raw.text)


def _unquoted(text: str, session: Session) -> str:
    quote, inside = text[0], text[1:-1]
    if not session.has_backslash_escapes or "\\" not in inside:
        return inside.replace(quote * 2, quote)
    pieces = re.split(r"(\\.)", inside, flags=re.DOTALL)
    return "".join(
        _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), piece)
        if n % 2
        else piece.replace(quote * 2, quote)
        for n, piece in enumerate(pieces)
    )
