"""`replicator heal`: goes on after the source has lost its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_runtime.cli.options import AsJson, Debug, PipelineFile, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.engine.repair.heal import HealPlan
    from replicator_runtime.engine.repair.history_gaps import HealedTable


def heal(pipeline: PipelineFile, yes: Yes = False, as_json: AsJson = False, debug: Debug = False) -> None:
    """Go on after the source has lost its log (exit code 7), without copying all tables: compare them, and write what differs.

    Begins to read where the log is now. Rows that changed while it was lost are found by comparing each table with its copy, deleted
    rows included; the changes between are not known. Tables without a key, or with too many such rows, are copied again by the next
    run. Says first what it will do, and asks. After it was cut off, give it again. Example: replicator heal pipeline.json
    """
    with Report("heal", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.repair.heal import heal as go_on
        from replicator_runtime.observability.logs import configure_logging

        def ask(plan: HealPlan) -> None:
            """Say what will be done, and ask."""
            report.note(f"the log after {plan.after} is lost: {plan.lost.code}: {plan.lost.message}")
            report.note(
                f"will be compared, and written where they differ: {', '.join(map(str, plan.compared)) or 'no table'}"
            )
            for table, why in plan.copied:
                report.note(f"{table} will be copied again by the next run: {why}")
            if not yes:
                confirm("what changed in between is known by its end only")

        configure_logging("error", "console")
        gap = go_on(load_pipeline(pipeline), ask)
        report.data = gap.to_json()
        for table in gap.tables:
            report.line(_line(table))
        report.line(
            f"the log is read on from {gap.until}: start `replicator run`; what was lost is the history after {gap.after}"
        )


def _line(table: HealedTable) -> str:
    if table.result == "healed":
        return f"{table.table}: {table.written:,} rows written, {table.deleted:,} deleted"
    if table.result == "left":
        return f"{table.table}: {table.why}; what the target has of it stays, and is replicated no more"
    return f"{table.table} is copied again by the next run: {table.why}"
