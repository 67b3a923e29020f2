"""`replicator offsets` and `replicator rewind`: the offsets saved so far, and the way back to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, PipelineFile, Replicator, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.cli.state_lookup import StateLocation
    from replicator_runtime.engine.rewind.choice import Wanted
    from replicator_runtime.engine.rewind.plan import RewindPlan
    from replicator_state import OffsetEntry

app = typer.Typer(help="Look at saved offsets, without connecting to anything.", no_args_is_help=True)
Limit = Annotated[int, typer.Option(min=1, help="At most so many, newest first.")]
FileName = Annotated[
    str | None, typer.Argument(metavar="OFFSET", help="Its name in the list; the newest when left out.")
]

BackTo = Annotated[
    str, typer.Option("--offset", metavar="OFFSET", help="Its name or offset, as `replicator offsets list` prints it.")
]
At = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="The newest offset saved at or before this time, in ISO 8601 with its zone: 2026-01-31T08:00:00+01:00.",
    ),
]


@app.command("list")
def list_offsets(
    name: Replicator,
    namespace: Namespace = "default",
    base: Base = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List saved offsets, newest first; unreadable ones with what is wrong.

    Example: replicator offsets list pipeline.json --limit 5
    """
    with Report("offsets.list", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import find_state

        location = find_state(name, namespace, base)
        report.data = [_json(entry, location) for entry in location.directory.offsets().history(limit)]
        print_offsets(report, report.data)


def print_offsets(report: Report, offsets: Sequence[Mapping[str, Any]]) -> None:
    """Print saved offsets, as the JSON of the command has them."""
    rows = [(e["name"], e["savedAt"], e["sequenceNumber"], e["offset"] or e["problem"]) for e in offsets]
    report.table(("name", "saved at", "sequence", "offset"), rows)
    if not rows:
        report.note("no offset was saved yet")


@app.command("show")
def show_offset(
    name: Replicator,
    offset: FileName = None,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show one saved offset, by default the one a restart would resume from.

    Example: replicator offsets show pipeline.json
    """
    with Report("offsets.show", as_json=as_json, debug=debug, subject=Subject(name, namespace, base)) as report:
        from replicator_runtime.cli.state_lookup import NEVER_RAN, find_state
        from replicator_sdk.errors import NeedsUserError
        from replicator_state import OffsetEntry

        location = find_state(name, namespace, base)
        store = location.directory.offsets()
        found = store.load(offset) if offset else store.latest()
        if found is None:
            raise NeedsUserError(
                f"no offset was saved yet at {location.directory.place}",
                code=NEVER_RAN,
                hint="wait for the first batch",
            )
        for file in found.recovered_from:
            report.warn(f"{file.name} is passed over: {file.reason}")
        file_name = f"offset.{found.commit_timestamp:020d}"
        report.data = _json(OffsetEntry(file_name, found.saved_at, found), location)
        report.data["fields"] = {key: value.hex() for key, value in found.fields.items()}
        print_offset(report, report.data)


def print_offset(report: Report, offset: Mapping[str, Any]) -> None:
    """Print one saved offset, as the JSON of the command has it; a service gives no `fields`."""
    for key, value in offset.items():
        if key not in ("fields", "problem"):
            report.line(f"{key:<15} {value}")
    for key, value in offset.get("fields", {}).items():
        report.line(f"  {key:<13} {value}")


def rewind(
    pipeline: PipelineFile,
    offset: BackTo = "",
    time: At = "",
    yes: Yes = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Go back to an offset that was saved before: the target's tables and the offset together.

    Shows for each table the position it has, the one it goes back to, and its rows; the next run reads the log again from there.
    Nothing is changed when a table's version, a file or the source's log is gone. Refused while a run goes on, and for targets
    without earlier versions (all but Delta and Iceberg). When it is interrupted, the next run, or the command again, finishes it. Example:
    replicator rewind pipeline.json --time 2026-01-31T08:00:00Z
    """
    with Report("rewind", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.confirmation import confirm
        from replicator_runtime.config import load_pipeline
        from replicator_runtime.engine.rewind.rewind import rewind as go_back
        from replicator_runtime.execution import InThread
        from replicator_runtime.observability.logs import configure_logging

        configure_logging("error", "console")
        wanted, loaded = _wanted(offset, time), load_pipeline(pipeline)

        def ask(plan: RewindPlan) -> None:
            report.data = _plan_json(plan)
            _print_plan(report, plan)
            if not yes:
                confirm(
                    f"the target's tables lose what is after {plan.choice.offset}; the next run reads it again from the log"
                )

        done = InThread(
            lambda *_: go_back(loaded, wanted, ask, lambda place: report.note(f"finished the rewind to {place}"))
        )
        done.start()
        plan = done.result()
        report.data = {**(report.data or {}), "done": True}
        if plan is not None:
            report.line(f"the next run reads the log again from {plan.choice.offset}")


def _wanted(offset: str, time: str) -> Wanted | None:
    from replicator_runtime.config.model import zoned_time
    from replicator_runtime.engine.rewind.choice import Wanted
    from replicator_sdk.errors import NeedsUserError

    if offset and time:
        raise NeedsUserError(
            "--offset and --time exclude each other", code="RPL-1279", hint="give one of them; nothing was changed"
        )
    if not time:
        return Wanted(offset) if offset else None
    moment = zoned_time(time)
    if moment is None:
        raise NeedsUserError(
            f"{time!r} is no time in ISO 8601 with a zone",
            code="RPL-1272",
            hint="write it as 2026-01-31T08:00:00Z or 2026-01-31T08:00:00+01:00; nothing was changed",
        )
    return Wanted(time=moment)


def _print_plan(report: Report, plan: RewindPlan) -> None:
    report.line(
        f"offset {plan.saved} goes back to {plan.choice.offset}, saved {plan.choice.saved.saved_at.isoformat()}"
    )
    report.line(f"about {plan.repeated} changes of the log are read again")
    rows = [tuple(one.values()) for one in _plan_json(plan)["tables"]]
    report.table(("table", "position", "goes back to", "what", "rows", "rows then"), rows)


def _plan_json(plan: RewindPlan) -> dict[str, Any]:
    return {
        "offset": str(plan.choice.offset),
        "name": plan.choice.name,
        "savedOffset": plan.saved,
        "repeatedChanges": plan.repeated,
        "tables": [
            {
                "table": str(one.table),
                "position": None if one.now is None else str(one.now),
                "goesBackTo": None if one.back is None else str(one.back),
                "what": one.what,
                "rows": one.rows_now,
                "rowsThen": one.rows_then,
            }
            for one in plan.tables
        ],
        "done": False,
    }


def _json(entry: OffsetEntry, location: StateLocation) -> dict[str, object]:
    saved = entry.offset
    return {
        "name": entry.name,
        "savedAt": entry.commit_time.isoformat(timespec="milliseconds"),
        "sequenceNumber": saved.sequence_number if saved else None,
        "epoch": saved.epoch if saved else None,
        "offset": _text(saved.fields, location) if saved else None,
        "problem": entry.problem or None,
    }


def _text(fields: Mapping[str, bytes], location: StateLocation) -> str:
    """The offset in the source's own notation where the pipeline names the source, else its fields in hexadecimal."""
    if location.config is not None:
        from replicator_runtime.plugin_host import PluginHost

        source = next(stage.plugin.name for stage in location.config.stages if stage.plugin.is_source)
        return str(PluginHost().source(source).offset_type.from_fields(fields))
    return " ".join(f"{key}={value.hex()}" for key, value in sorted(fields.items()))
