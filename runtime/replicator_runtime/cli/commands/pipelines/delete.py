"""`replicator delete`: removes a replicator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Debug, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.engine.control.delete import Outcome

Pipeline = Annotated[
    str,
    typer.Argument(metavar="PIPELINE", help="The pipeline JSON, as it was run.", show_default=False),
]
TargetTables = Annotated[
    bool, typer.Option("--target-tables", help="Delete the tables at the target, too, that this replicator wrote.")
]
KeepSource = Annotated[
    bool, typer.Option("--keep-source", help="Leave the source alone, such as when it cannot be reached any more.")
]


def delete(
    pipeline: Pipeline,
    target_tables: TargetTables = False,
    keep_source: KeepSource = False,
    yes: Yes = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Remove a replicator: what it left at the source (slot and publication, triggers), its state, on request its tables.

    Says first what is deleted and what stays, and asks. Refused while a run goes on. After it was cut off, give it again: until
    then no run begins. Example: replicator delete pipeline.json --target-tables
    """
    with Report("delete", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.control import delete as deletion
        from replicator_runtime.observability.logs import configure_logging
        from replicator_sdk.errors import NeedsUserError

        configure_logging("error", "console")
        if not pipeline.endswith(".json") and not Path(pipeline).is_file():
            raise NeedsUserError(
                f"{pipeline} is no file, and a name alone does not say at which source and target the replicator is",
                code="RPL-1241",
                hint="give the pipeline's file as it was run",
            )
        loaded = load_pipeline(Path(pipeline))
        found = deletion.survey(loaded, target_tables=target_tables, keep_source=keep_source)
        plan = deletion.expected(found, target_tables=target_tables, keep_source=keep_source, pipeline=loaded)
        if not yes:
            for line in _lines(plan, "is deleted", "stays"):
                report.note(line)
            confirm("this cannot be undone")
        done = deletion.delete(loaded, target_tables=target_tables, keep_source=keep_source)
        report.data = {"deleted": list(done.deleted), "left": list(done.left)}
        for line in _lines(done, "deleted", "left"):
            report.line(line)


def _lines(outcome: Outcome, deleted: str, left: str) -> list[str]:
    return [*(f"{deleted}: {what}" for what in outcome.deleted), *(f"{left}: {what}" for what in outcome.left)]
