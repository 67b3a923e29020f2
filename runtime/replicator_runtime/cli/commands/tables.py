"""`replicator tables`: lists the source's tables, and which are replicated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from replicator_runtime.cli.commands.checks.samples import MOST_ROWS
from replicator_runtime.cli.options import AsJson, Debug, PipelineFile
from replicator_runtime.cli.report import Report
from replicator_runtime.observability.next_steps import Subject

if TYPE_CHECKING:
    from replicator_sdk.discovery.table_registry import TableSummary
    from replicator_sdk.schema import TableSchema

Pattern = Annotated[
    str | None,
    typer.Argument(help="Only these: a name or pattern (* and ?) of table or schema.table.", show_default=False),
]
Rows = Annotated[
    int,
    typer.Option(
        "--rows",
        min=0,
        max=MOST_ROWS,
        help="Show so many rows of each table: values of the source, cut to 200 characters.",
    ),
]
WithColumns = Annotated[bool, typer.Option("--columns", help="Describe the columns as well.")]


def tables(
    pipeline: PipelineFile,
    pattern: Pattern = None,
    with_columns: WithColumns = False,
    rows: Rows = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the source's tables. Connects to the source; changes nothing. The pipeline may lack its target.

    Example: replicator tables pipeline.json 'public.*' --columns
    """
    with Report("tables", as_json=as_json, debug=debug, subject=Subject(str(pipeline))) as report:
        from replicator_runtime.cli.commands.checks.samples import sample_of
        from replicator_runtime.config import load_end

        loaded = load_end(pipeline, "source")
        with loaded.source.create_table_registry() as registry:
            found = [t for t in registry.list_tables() if pattern is None or _fits(pattern, t)]
            if rows:  # a table whose name is a pattern is meant alone
                found = [t for t in found if pattern in {t.table.table, str(t.table)}] or found
            schemas = [registry.describe_table(t.table) for t in found] if with_columns or rows else []
        samples = [sample_of(loaded, schema, rows) for schema in schemas] if rows else []
        chosen = {t.table: loaded.selection.matches(t.table) is not None for t in found}
        report.data = [_json(t, chosen[t.table]) for t in found]
        for shown, schema in zip(report.data, schemas, strict=bool(schemas)):
            shown |= {"columns": [c.to_json() for c in schema.columns], "primaryKey": list(schema.primary_key)}
        for shown, sample in zip(report.data, samples, strict=bool(samples)):
            shown |= {"sample": sample}
        listed = [
            (t.table, t.columns, _known(t.estimated_rows), _known(t.estimated_bytes), chosen[t.table]) for t in found
        ]
        if listed:
            report.table(("table", "columns", "rows (about)", "bytes (about)", "replicated"), listed)
        for schema in schemas if with_columns else []:
            _print_columns(report, schema)
        for summary, sample in zip(found, samples, strict=bool(samples)):
            report.line()
            report.line(f"{len(sample['rows'])} rows of {summary.table}")
            report.table(tuple(sample["columns"]), sample["rows"])
        if not found:
            report.note(
                f"no table fits {pattern}: quote a pattern, such as 'public.*'; without one all tables that the user may read are listed"
                if pattern
                else "the user of this pipeline sees no table: grant it SELECT, as the source's page says"
            )


def _fits(pattern: str, summary: TableSummary) -> bool:
    from replicator_runtime.config.selection import glob_matches

    return glob_matches(pattern, summary.table.table) or glob_matches(pattern, str(summary.table))


def _json(summary: TableSummary, replicated: bool) -> dict[str, object]:
    return {
        **summary.table.to_json(),
        "numColumns": summary.columns,
        "estimatedRows": _known(summary.estimated_rows),
        "estimatedBytes": _known(summary.estimated_bytes),
        "replicated": replicated,
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _print_columns(report: Report, schema: TableSchema) -> None:
    report.line()
    report.line(f"{schema.table} (key: {', '.join(schema.primary_key) or 'none'})")
    rows = [(c.name, c.source_type, c.type, c.nullable) for c in schema.columns]
    report.table(("column", "type at source", "type", "nullable"), rows)
