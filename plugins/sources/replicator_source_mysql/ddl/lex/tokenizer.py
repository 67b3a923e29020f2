r"""A statement's text as tokens: comments removed, executable comments read as code, escapes in strings resolved.

One regular expression finds a token, a comment or the beginning and end of an executable comment. A library's tokenizer would
not do: it takes executable comments for comments, `--` for one without the blank MySQL asks for, and drops the backslash of `\%`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from replicator_source_mysql.ddl.lex.session import Session

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_QUOTED = r"{0}(?:[^{0}\\]++|\\.|{0}{0})*+{0}"
_PLAIN_QUOTED = r"{0}(?:[^{0}]++|{0}{0})*+{0}"
_LETTER = r"[\w$\x80-\U0010ffff]"
"""What a name without quotes consists of; it may begin with a digit, and is a number when nothing but digits is in it."""
_TOKENS = r"""
[\x00-\x20]++
|(?P<open>/\*{maker}!(?:\d{{5,6}})?)
|(?P<comment>/\*.*?\*/|--(?=[\x00-\x20]|\Z)[^\n]*+|\#[^\n]*+)
|(?P<close>\*/)
|(?P<HEX>[xX]'[0-9a-fA-F]*+'|0x[0-9a-fA-F]++(?!{letter}))
|(?P<BIT>[bB]'[01]*+'|0b[01]++(?!{letter}))
|[nN]?(?P<STRING>{string})
|(?P<NAME>{name})
|(?P<NUMBER>\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?(?!{letter}))
|(?P<WORD>{letter}++)
|(?P<MARK>.)
"""
_REMOVED = {"comment", "open", "close"}
_MARK = re.compile("(?P<MARK>.)")


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


def tokenize(text: str, session: Session) -> list[Token]:
    """The tokens of `text`, without comments; the code in executable comments counts as code.

    A server that did not execute such a comment wrote it into its log as an ordinary one, so every one left counts.

    Raises:
        UnreadError: When a quote is never closed.
    """
    return [
        Token(Kind[kind], _meaning(kind, match[kind], session))
        for match in _pieces(text, session)
        if match is not None and (kind := match.lastgroup) is not None
    ]


def open_comments(text: str, session: Session) -> str:
    """`text` without comments; the code in executable comments is left as code."""
    return "".join(" " if match is None else match[0] for match in _pieces(text, session))


def _pieces(text: str, session: Session) -> Iterator[re.Match[str] | None]:
    """Tokens and white space in order, None for a comment, and for the marks around the code of an executable one."""
    pattern = _pattern(
        ansi_quotes=session.has_ansi_quotes,
        backslash_escapes=session.has_backslash_escapes,
        is_mariadb=session.is_mariadb,
    )
    depth = at = 0
    while match := pattern.match(text, at):
        at = match.end()
        kind = match.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close" and depth:
            depth -= 1
        elif kind == "close":
            at = match.start() + 1
            yield _MARK.match(text, match.start())
            continue
        yield None if kind in _REMOVED else match


def _meaning(kind: str, written: str, session: Session) -> str:
    if kind == "STRING":
        return _unquoted(written, session)
    if kind == "NAME":
        quote = written[0]
        return written[1:-1].replace(quote * 2, quote)
    if kind in {"HEX", "BIT"}:
        return written[2:].rstrip("'")
    if kind == "MARK" and written in "'\"`":
        raise UnreadError("its quotes do not match")
    return written


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


@lru_cache(maxsize=8)
def _pattern(*, ansi_quotes: bool, backslash_escapes: bool, is_mariadb: bool) -> re.Pattern[str]:
    quoted = _ESCAPED_QUOTED if backslash_escapes else _PLAIN_QUOTED
    strings = [quoted.format("'")] + ([] if ansi_quotes else [quoted.format('"')])
    names = [_PLAIN_QUOTED.format("`")] + ([_PLAIN_QUOTED.format('"')] if ansi_quotes else [])
    tokens = _TOKENS.replace("\n", "").format(
        maker="M?" if is_mariadb else "", letter=_LETTER, string="|".join(strings), name="|".join(names)
    )
    return re.compile(tokens, re.DOTALL)
