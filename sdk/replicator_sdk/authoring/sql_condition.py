"""Refuses conditions that could end the expression they are put into, in any of the databases' dialects of SQL."""

from __future__ import annotations

from typing import Final

_MARKS: Final = {
    ";": "a semicolon",
    "`": "a back quote",
    "[": "a square bracket",
    "]": "a square bracket",
    "$": "a dollar sign",
    "#": "a number sign",
}
"""Marks that begin or end something in one dialect and not in another; refused outside of quotes."""
_COMMENTS: Final = ("--", "/*", "*/")


def condition_problem(text: str) -> str:
    """Why `text` may not be put between parentheses as a condition of a SELECT; empty when it may.

    It is not parsed: the server does that. A text that passes cannot close the parentheses around it, begin another
    statement or a comment, whichever database reads it. Quotes are doubled inside quotes, as in standard SQL.
    """
    quote, depth = "", 0
    for place, mark in enumerate(text):
        if mark in "\\\0":
            return "it has a backslash or a zero byte"
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "'\"":
            quote = mark
        elif mark in _MARKS:
            return f"it has {_MARKS[mark]} outside of quotes"
        elif text[place : place + 2] in _COMMENTS:
            return "it has a comment"
        else:
            depth += (mark == "(") - (mark == ")")
            if depth < 0:
                return "it closes a parenthesis that it has not opened"
    if quote or depth:
        return "a quote is not closed" if quote else "a parenthesis is not closed"
    return "" if text.strip() else "it is blank"
