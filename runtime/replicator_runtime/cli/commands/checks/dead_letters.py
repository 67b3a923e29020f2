"""`replicator dead-letters`: the rows that were put aside, since a value of theirs is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replicator_runtime.cli.options import AsJson, Base, Debug, Namespace, NoWait, Replicator, Timeout, Yes
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject, only

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from replicator_runtime.dead_letter import Letter
    from replicator_runtime.engine.letters.letter_file import LetterHead
    from replicator_sdk import TableId

app = typer.Typer(
    help="Rows that `onDataError: lane` put aside, since source or target refuses a value of theirs.",
    no_args_is_help=True,
)
Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TABLE...]",
        help="As table, schema.table or database.schema.table; quoted as in SQL where a name has dots. All when left out.",
        show_default=False,
    ),
]
ShowValues = Annotated[bool, typer.Option("--show-values", help="Show keys and rows; refused values are NULL in them.")]
Limit = Annotated[int, typer.Option(min=1, help="At most so many rows of each table.")]


@app.command("list")
def list_letters(
    name: Replicator,
    tables: Tables = None,
    show_values: ShowValues = False,
    limit: Limit = 100,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the rows put aside, with reason and position. Reads the state only; shows no values unless asked to.

    Example: replicator dead-letters list pipeline.json shop.orders --show-values
    """
    with Report(
        "dead-letters.list", as_json=as_json, debug=debug, subject=Subject(name, namespace, base, only(tables))
    ) as report:
        from replicator_runtime.cli.state_lookup import find_state
        from replicator_runtime.engine.letters.letter_file import newest_files

        location = find_state(name, namespace, base)
        found = newest_files(location.directory.dead_letters())
        with_letters = [head.table for head, letters in found if letters]
        chosen = {_chosen(table, with_letters) for table in tables or ()}
        report.data = []
        for head, letters in sorted(found, key=lambda item: item[0].table):
            if (chosen and head.table not in chosen) or not letters:
                continue
            shown = [_json(head, letter, show_values=show_values) for letter in list(letters.values())[:limit]]
            report.data.append({"table": head.table.to_json(), "rows": len(letters), "letters": shown})
        print_letters(report, report.data, show_values=show_values)


def print_letters(report: Report, found: Sequence[Mapping[str, Any]], *, show_values: bool) -> None:
    """Print the rows put aside of each table, as the JSON of the command has them."""
    from replicator_sdk import TableId

    names = ("operation", "columns", "code", "reason", "position", "sequence", "changes")
    more = ("key", "row") if show_values else ()
    for one in found:
        report.line(f"{TableId.from_json(one['table'])}: {one['rows']} rows put aside")
        rows = [tuple(_text(letter[n]) for n in (*names, *more)) for letter in one["letters"]]
        report.table((*names, *more), rows)
    if not found:
        report.note("no row is put aside")


@app.command("replay")
def replay(
    name: Replicator,
    tables: Tables = None,
    yes: Yes = False,
    timeout: Timeout = 60.0,
    no_wait: NoWait = False,
    namespace: Namespace = "default",
    base: Base = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read the rows put aside again from the source, as they are there now: their tables are copied again.

    For after values were repaired at the source in a way that wrote no row, or the pipeline's settings were changed: a row that is
    written whole at the source is whole at the target without it. Rows that are still refused are put aside again.
    Example: replicator dead-letters replay pipeline.json shop.orders
    """
    with Report(
        "dead-letters.replay", as_json=as_json, debug=debug, subject=Subject(name, namespace, base, only(tables))
    ) as report:
        from replicator_runtime.cli.confirmation import confirm, lost_by_replay
        from replicator_runtime.cli.control import ask
        from replicator_runtime.cli.state_lookup import find_state

        find_state(name, namespace, base)
        if not yes:
            confirm(lost_by_replay(tables or []))
        arguments = {"tables": tables or []}
        ask(report, name, namespace, base, "dead-letters.replay", arguments, timeout=None if no_wait else timeout)


def _chosen(name: str, tables: list[TableId]) -> TableId:
    """The table that `name` means, among those with rows put aside.

    Raises:
        NeedsUserError: RPL-1281 when it means none of them.
    """
    from replicator_runtime.engine.control.table_names import find_table
    from replicator_sdk.errors import NeedsUserError

    try:
        return find_table(name, tables)
    except NeedsUserError as error:
        raise NeedsUserError(
            f"no row of {name} is put aside, or it is no one table of the pipeline",
            code="RPL-1281",
            hint="`replicator dead-letters list NAME` lists all that are, `replicator status NAME` the pipeline's tables",
            table=name,
        ) from error


def _json(head: LetterHead, letter: Letter, *, show_values: bool) -> dict[str, Any]:
    import json

    committed = letter.timestamp
    at = None if committed < 0 else datetime.fromtimestamp(committed / 1_000_000, UTC).isoformat()
    found = {**letter.to_json(), "committedAt": at}
    if show_values:
        found |= {"key": dict(zip(head.key_columns, letter.key, strict=False)), "row": json.loads(letter.row)}
    return found


def _text(value: Any) -> str:
    import json

    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
