"""Parses statements by code that is not the plugin's: sqlglot's BigQuery dialect."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

_CONTROL = ("DECLARE ", "BEGIN TRANSACTION", "COMMIT TRANSACTION", "ROLLBACK TRANSACTION", "ELSE\n", "END IF")


def parse_sql(script: str) -> list[exp.Expr]:
    """Parse every statement of a script, those inside its IF too.

    Raises:
        AssertionError: When one is no BigQuery SQL.
    """
    found = []
    for part in script.split(";\n"):
        text = part.strip()
        if text.startswith("SET outcome = "):
            text = f"SELECT {text.removeprefix('SET outcome = ')}"
        text = text.split(" THEN\n", 1)[1] if text.startswith("IF outcome") else text
        if text.startswith(_CONTROL):
            continue
        try:
            (parsed,) = sqlglot.parse(text, read="bigquery")
        except sqlglot.errors.ParseError as err:
            raise AssertionError(f"no BigQuery SQL: {text}") from err
        assert parsed is not None, text
        assert not isinstance(parsed, exp.Command), text
        found.append(parsed)
    return found
