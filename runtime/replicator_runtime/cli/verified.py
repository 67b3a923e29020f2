"""Shows what was found when tables were compared with their copies: by runs, and over a gap in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from replicator_sdk import TableId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.cli.report import Report

_GAPS_SHOWN: Final = 3


def print_comparisons(report: Report, found: Mapping[str, Any]) -> None:
    """Print what `replicator status --json` has of them: `verification` and `historyGaps`."""
    if found["verification"] is not None:
        print_verified(report, found["verification"])
    for gap in found["historyGaps"][-_GAPS_SHOWN:]:
        report.line(
            f"the history from {gap['after']} to {gap['until']} was lost ({gap['code']}), and healed at {gap['at']}"
        )


def print_verified(report: Report, found: Mapping[str, Any]) -> None:
    """Print when each table was verified last, and which differed then."""
    tables = [(str(TableId.from_json(one)), one) for one in found["tables"]]
    if tables:
        report.line()
        report.table(
            ("table", "verified at", "result", "rows", "seconds"),
            [
                (table, one["verifiedAt"] or "never", one["result"], one["rowsSource"], one["seconds"])
                for table, one in tables
            ],
        )
    for table, one in tables:
        if one["result"] == "different":
            report.line(
                f"{table} differed: {one['missing']:,} rows missing, {one['surplus']:,} surplus, {one['different']:,} different;"
                " `replicator verify PIPELINE TABLE --repair` compares again, and repairs (it needs the pipeline's file)",
                table,
            )
        if one["error"]:
            report.line(f"{table} could not be compared, and is tried again: {one['error']}", table)
    if found["everySeconds"] is not None and not tables:
        report.line(
            f"tables are compared every {found['everySeconds'] / 3600:g} h beside `replicator run`; none has been so far"
        )
