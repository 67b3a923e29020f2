"""The script that a batch, or any other step, commits with: one transaction over data and `_replicator_commits`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

READY = "ready"
DONE = "done"
FENCED = "fenced"
MOVED = "moved"
UNSTAGED = "unstaged"
LOST = "lost"
UNMATCHED = "unmatched"
SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Bounded:
    """A first statement of a transaction after which a condition must not hold; else the transaction is rolled back.

    Attributes:
        statement: The statement.
        excess: The condition.
        outcome: What the script answers when it holds.
    """

    statement: str
    excess: str
    outcome: str


def guarded(
    checks: Sequence[tuple[str, str]],
    rows: str,
    statements: Sequence[str],
    *,
    first: Bounded | None = None,
    measure: str = "",
) -> str:
    """A script that runs `statements` in one transaction if no check holds, and answers which did.

    Its last result is one row with one text: `READY` when the statements ran, else the outcome of the first check that
    held. It raises nothing by itself: an error is BigQuery's own, and then the transaction is rolled back.

    Args:
        checks: Conditions and their outcomes; evaluated inside the transaction, in one read of `rows`.
        rows: What the conditions' aggregates are of: `FROM …`.
        statements: The statements of the transaction.
        first: What runs before them; `outcome` is the answer where it goes too far.
        measure: An expression whose value after the transaction is the result's second column.
    """
    cases = "\n".join(f"  WHEN {condition} THEN '{outcome}'" for condition, outcome in checks)
    body = ";\n".join(statements)
    begin, end = "", "COMMIT TRANSACTION"
    if first is not None:
        begin = (
            f"IF outcome = '{READY}' THEN\n{first.statement};\n"
            f"SET outcome = IF({first.excess}, '{first.outcome}', '{READY}');\nEND IF;\n"
        )
        end = f"IF outcome = '{first.outcome}' THEN\nROLLBACK TRANSACTION;\nELSE\nCOMMIT TRANSACTION;\nEND IF"
    return (
        f"DECLARE outcome STRING;\n"
        f"BEGIN TRANSACTION;\n"
        f"SET outcome = (SELECT CASE\n{cases}\n  ELSE '{READY}' END {rows});\n"
        f"{begin}"
        f"IF outcome = '{READY}' THEN\n{body};\nEND IF;\n"
        f"{end};\n"
        f"SELECT outcome{', ' if measure else ''}{measure}"
    )
