"""A text that passes stays inside the parentheses that it is put into; SQLite is asked."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator_sdk.authoring.sql_condition import condition_problem

FINE = [
    "id < 10",
    "name = 'it''s; -- no comment'",
    '"a column" IN (SELECT x FROM y WHERE (z))',
    "a - -1 > 0 AND created >= '2024-01-01'",
]
REFUSED = {
    "1) UNION SELECT secret FROM other WHERE (1": "closes a parenthesis",
    "1); DROP TABLE x": "closes a parenthesis",
    "1; DROP TABLE x": "semicolon",
    "1 -- and": "comment",
    "1 /* and": "comment",
    "name = 'open": "quote is not closed",
    "(1": "parenthesis is not closed",
    "[ ' ] ) UNION SELECT 1 [ ' ]": "square bracket",
    "1 = 1 ` ) UNION SELECT 1 `": "back quote",
    "x = $a$ ' $a$": "dollar",
    "x = 'a\\' OR 1": "backslash",
    "1 # rest": "number sign",
    "  ": "blank",
}


@pytest.mark.parametrize("text", FINE)
def test_conditions_pass(text: str) -> None:
    assert condition_problem(text) == ""


@pytest.mark.parametrize("text", REFUSED)
def test_what_could_end_the_expression_is_refused(text: str) -> None:
    assert REFUSED[text] in condition_problem(text)


_PIECES = [
    "1",
    "0",
    "(",
    ")",
    "'",
    '"',
    ";",
    "--",
    "/*",
    "*/",
    "[",
    "]",
    "`",
    "x",
    " UNION SELECT 'kept' ",
    " OR ",
    " ",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=9).map("".join))
def test_no_text_that_passes_selects_other_rows(text: str) -> None:
    """`t` has one row, which is the only one that may come back, and what follows the condition is always part of the query."""
    if condition_problem(text):
        return
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE TABLE t (x)")
        database.execute("INSERT INTO t VALUES (7)")
        rows = database.execute(f"SELECT x FROM t WHERE ({text}) AND 1 = 0").fetchall()
    except sqlite3.Error:
        rows = []
    finally:
        database.close()
    assert rows == []
