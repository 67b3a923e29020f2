"""`replicator offsets`: the offsets saved so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report

if TYPE_CHECKING:
    from replicator_runtime.cli.state_lookup import StateLocation
    from replicator_state import OffsetEntry

app = typer.Typer(help="Look at saved offsets, without connecting to anything.", no_args_is_help=True)
Limit = Annotated[int, typer.Option(min=1, help="At most so many, newest first.")]
FileName = Annotated[
    str | None, typer.Argument(metavar="OFFSET", help="Its name in the list; the newest when left out.")
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
    with Report("offsets.list", as_json=as_json, debug=debug) as report:
        from replicator_runtime.cli.state_lookup import find_state

        location = find_state(name, namespace, base)
        report.data = [_json(entry, location) for entry in location.directory.offsets().history(limit)]
        rows = [(e["name"], e["savedAt"], e["sequenceNumber"], e["offset"] or e["problem"]) for e in report.data]
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
    with Report("offsets.show", as_json=as_json, debug=debug) as report:
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
        for key, value in report.data.items():
            if key not in ("fields", "problem"):
                report.line(f"{key:<15} {value}")
        for key, value in report.data["fields"].items():
            report.line(f"  {key:<13} {value}")


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
