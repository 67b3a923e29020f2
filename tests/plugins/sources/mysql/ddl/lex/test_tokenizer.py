"""Tokens are what the server's own lexer makes of a text."""

from __future__ import annotations

import pytest

from replicator_source_mysql.ddl.lex.session import Session
from replicator_source_mysql.ddl.lex.tokenizer import Kind, Token, UnreadError, open_comments, tokenize

_MYSQL, _MARIADB = Session("d"), Session("d", is_mariadb=True)


def kinds(text: str, session: Session = _MYSQL) -> list[tuple[Kind, str]]:
    return [(token.kind, token.text) for token in tokenize(text, session)]


@pytest.mark.parametrize(
    "name", ["t", "1a", "2024_orders", "1e", "1e5x", "0xZZ", "0b12", "a$b", "$", "日本", "\u00a0a", "\udcff"]
)
def test_a_name_without_quotes_is_one_word(name: str) -> None:
    assert kinds(f"ALTER TABLE {name}.{name}")[2:] == [(Kind.WORD, name), (Kind.MARK, "."), (Kind.WORD, name)]


@pytest.mark.parametrize("number", ["0", "007", "12", "1.5", "5.", "1e5", "1.5E-3"])
def test_a_number_is_one_token(number: str) -> None:
    assert kinds(f"DEFAULT {number},") == [(Kind.WORD, "DEFAULT"), (Kind.NUMBER, number), (Kind.MARK, ",")]


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("0x4D", (Kind.HEX, "4D")), ("x'4d4E'", (Kind.HEX, "4d4E")), ("0b101", (Kind.BIT, "101")), ("B'0'", (Kind.BIT, "0")),
        ("N'ab'", (Kind.STRING, "ab")), ("'it''s'", (Kind.STRING, "it's")), (r"'a\'b\n\%'", (Kind.STRING, "a'b\n\\%")),
        ('"a""b"', (Kind.STRING, 'a"b')), ("`q``x`", (Kind.NAME, "q`x")),
    ],
)  # fmt: skip
def test_a_literal_is_one_token_without_its_quotes(text: str, token: tuple[Kind, str]) -> None:
    assert kinds(f"({text})") == [(Kind.MARK, "("), token, (Kind.MARK, ")")]


def test_the_sessions_mode_decides_what_quotes_and_backslashes_are() -> None:
    session = Session("d", has_ansi_quotes=True, has_backslash_escapes=False)
    assert kinds('"a""b" \'\\\'', session) == [(Kind.NAME, 'a"b'), (Kind.STRING, "\\")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a/* b */c", "a c"), ("a -- b\nc", "a c"), ("a--b", "a - - b"), ("a # b\nc", "a c"), ("a /*!50100 b /* c */ */ d", "a b d"),
        ("a /*M! b */ c", "a c"), ("a */ b", "a * / b"), ("a /* b", "a / * b"), ("a /*! b", "a b"),
    ],
)  # fmt: skip
def test_comments_are_left_out_and_executable_ones_are_code(text: str, words: str) -> None:
    assert [token.text for token in tokenize(text, _MYSQL)] == words.split()
    assert tokenize(open_comments(text, _MYSQL), _MYSQL) == tokenize(text, _MYSQL)


def test_mariadbs_own_executable_comments_are_code_on_mariadb() -> None:
    assert tokenize("a /*M!100100 b */", _MARIADB) == [Token(Kind.WORD, "a"), Token(Kind.WORD, "b")]


@pytest.mark.parametrize("text", ["'a", "a `b", 'x "', "x'4G'x'", "'a\\'"])
def test_a_quote_that_is_never_closed_is_an_error_without_the_text(text: str) -> None:
    with pytest.raises(UnreadError, match=r"^its quotes do not match$"):
        tokenize(text, _MYSQL)
