"""The script that a batch, or any other step, commits with: one transaction over data and `_replicator_commits`."""

from __future__ import annotations

from collections.abc import Sequence

READY = "ready"
DONE = "done"
FENCED = "fenced"
MOVED = "moved"
UNSTAGED = "unstaged"
LOST = "lost"


def guarded(checks: Sequence[tuple[str, str]], rows: str, statements: Sequence[str]) -> str:
    """A script that runs `statements` in one transaction if no check holds, and answers which did.

    Its last result is one row with one text: `READY` when the statements ran, else the outcome of the first check that
    held. It raises nothing by itself: an error is BigQuery's own, and then the transaction is rolled back.

    Args:
        checks: Conditions and their outcomes; evaluated inside the transaction, in one read of `rows`.
        rows: What the conditions' aggregates are of: `FROM …`.
        statements: The statements of the transaction.
    """
    cases = "\n".join(f"  WHEN {condition} THEN '{outcome}'" for condition, outcome in checks)
    body = ";\n".join(statements)
    return (
        f"DECLARE outcome STRING;\n"
        f"BEGIN TRANSACTION;\n"
        f"SET outcome = (SELECT CASE\n{cases}\n  ELSE '{READY}' END {rows});\n"
        f"IF outcome = '{READY}' THEN\n{body};\nEND IF;\n"
        f"COMMIT TRANSACTION;\n"
        f"SELECT outcome"
    )
