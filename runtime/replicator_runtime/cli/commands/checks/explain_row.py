"""`replicator explain-row`: one row at the source and at the target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, Replicator
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_runtime.engine.verification.explained_row import ExplainedRow
    from replicator_sdk.errors import ReplicatorError

Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="As table, schema.table or database.schema.table; quoted as in SQL where a name has dots."
    ),
]
Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help='Each column of the key: `id=7` or `order=7,line=2`, or JSON: \'{"order": 7, "line": 2}\'.'
    ),
]
ShowValues = Annotated[bool, typer.Option("--show-values", help="Show the row's values on both sides.")]


def explain_row(
    name: Replicator,
    table: Table,
    key: Key,
    show_values: ShowValues = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare one row at the source and at the target, and say whether it was put aside. Changes nothing.

    Needs the pipeline's file. Reads the source's table until the row is found. Ends with exit code 5 when the target differs and is not
    merely late. Example: replicator explain-row pipeline.json shop.orders id=7
    """
    with Report("explain-row", as_json=as_json, debug=debug, subject=Subject(name, namespace, base, table)) as report:
        from replicator_runtime.cli.reading import read_beside_run
        from replicator_runtime.engine.verification.explained_row import explain_row as explain

        wanted = key_of(key)
        found, signal = read_beside_run(name, namespace, base, lambda reading: explain(reading, table, wanted))
        _print(report, found, show_values=show_values)
    if signal:
        raise typer.Exit(signal)


def key_of(key: str) -> dict[str, str]:
    """The value of each column of a key.

    Raises:
        NeedsUserError: RPL-1283.
    """
    from replicator_sdk.errors import NeedsUserError

    try:
        if key.lstrip().startswith("{"):
            return {str(name): _text(value) for name, value in json.loads(key).items()}
        pairs = [part.partition("=") for part in key.split(",")]
        if all(name and equals for name, equals, _ in pairs):
            return {name.strip(): value for name, _, value in pairs}
    except ValueError:
        pass
    raise NeedsUserError(
        "the key cannot be read",
        code="RPL-1283",
        hint="write it as id=7, or as JSON where a value has a comma: '{\"id\": 7}'",
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _print(report: Report, found: ExplainedRow, *, show_values: bool) -> None:
    """Print what was found.

    Raises:
        DataError: RPL-5031 when the target has every change up to there, and differs for no known reason.
    """
    report.data = _json(found, show_values=show_values)
    report.line(f"{found.table}: {_verdict(found)}")
    progress = found.progress
    report.table(
        ("side", "position", "version", "sequence", "batch"),
        [
            ("source", found.source_position, "", "", ""),
            ("target", str(progress.position), found.version, progress.last_sequence, progress.batch),
        ],
    )
    if found.is_late and not found.is_same:
        report.note(
            "the target's version is of an earlier position, so that a change of the row may be on its way: give the command again once a run has gone on"
        )
    if found.letter is not None:
        letter = found.letter
        report.line(
            f"put aside at {letter.position} ({letter.operation}, sequence {letter.sequence}): {letter.code} in"
            f" {', '.join(letter.columns)}: {letter.reason}"
        )
        report.note(
            "`replicator dead-letters replay NAME TABLE` copies the table again once the value or its type is repaired"
        )
    for side in ("source", "target") if show_values else ():
        report.line(f"{side:<7} {json.dumps(report.data[side].get('row'), ensure_ascii=False)}")
    if not (found.is_same or found.is_late or found.letter):
        raise _differs(found)


def _differs(found: ExplainedRow) -> ReplicatorError:
    from replicator_sdk.errors import DataError

    return DataError(
        f"the row at the target is not the source's: {_verdict(found)}",
        code="RPL-5031",
        hint="`replicator verify NAME TABLE` says how many rows of the table differ; with --repair it writes these again",
        table=str(found.table),
        position=found.source_position,
    )


def _verdict(found: ExplainedRow) -> str:
    """What the two sides have."""
    if len(found.targets) > 1:
        return "the target has several rows of this key"
    if found.source is None:
        return "only the target has the row" if found.targets else "neither side has the row"
    refused = f"; no standard type holds its {', '.join(found.refused)}" if found.refused else ""
    if not found.targets:
        return f"only the source has the row{refused}"
    if found.differing:
        return f"both sides have the row; {', '.join(found.differing)} {'differs' if len(found.differing) == 1 else 'differ'}{refused}"
    return f"both sides have the row, with equal values{refused}"


def _json(found: ExplainedRow, *, show_values: bool) -> dict[str, Any]:
    progress, letter = found.progress, found.letter
    source: dict[str, Any] = {"position": found.source_position, "found": found.source is not None}
    target: dict[str, Any] = {
        "position": str(progress.position),
        "version": found.version,
        "sequence": progress.last_sequence,
        "batch": progress.batch,
        "epoch": progress.epoch,
        "rows": len(found.targets),
    }
    if show_values:
        source["row"] = _shown(found.source)
        target["row"] = _shown(found.targets[0]) if found.targets else None
    return {
        **found.table.to_json(),
        "state": found.state,
        "verdict": _verdict(found),
        "source": source,
        "target": target,
        "differing": list(found.differing),
        "refused": list(found.refused),
        "targetIsLate": found.is_late,
        "deadLetter": letter and letter.to_json(),
    }


def _shown(row: Any) -> Any:
    from replicator_runtime.dead_letter import row_text

    return None if row is None else json.loads(row_text(row))
