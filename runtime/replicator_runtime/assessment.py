"""Assesses a whole pipeline: source, target, and every selected table at both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from replicator_runtime.config.selection import entry_name, is_pattern
from replicator_runtime.engine.planning.start_step import first_start_step
from replicator_runtime.engine.snapshot.copy_order import entry_matches
from replicator_runtime.engine.structure.policy import check_source
from replicator_runtime.setting_edits import settings_edits
from replicator_runtime.spelling import near_name
from replicator_runtime.stored_tables import StoredTables
from replicator_sdk.discovery.assessment import ColumnAssessment, Finding, Severity, Support
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_sdk.source import DeltaSource, EventReaderDefinition
from replicator_state import ReplicatorDirectory

if TYPE_CHECKING:
    from replicator_runtime.config import Pipeline, PipelineEnd, SelectedTable
    from replicator_runtime.stored_tables import NextRun
    from replicator_sdk.discovery.assessment import TableAssessor
    from replicator_sdk.discovery.table_registry import TableRegistry
    from replicator_sdk.schema import TableId, TableSchema
    from replicator_state import SavedOffset

ASSESSED_AS_ERROR = "RPL-1202"
TABLE_MISSING = "RPL-2001"
COLUMN_MISSING = "RPL-2003"
NOTHING_SELECTED = "RPL-2002"
COLUMNS_WITHOUT_KEY = "RPL-2004"
_WORST_FIRST = (Support.NO, Support.PARTIAL, Support.YES)


@dataclass(frozen=True, slots=True)
class TableReport:
    """One selected table: how its columns arrive at the target, and the findings of both sides."""

    table: TableId
    columns: tuple[ColumnAssessment, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        support = [c.support for c in self.columns]
        return {
            **self.table.to_json(),
            "numColumns": len(support),
            "numColumnsNotSupported": support.count(Support.NO),
            "numColumnsPartiallySupported": support.count(Support.PARTIAL),
            "columns": [c.to_json() for c in self.columns],
            "findings": [f.to_json() for f in self.findings],
        }


@dataclass(frozen=True, slots=True)
class PipelineAssessment:
    """Everything found.

    Attributes:
        source: Findings about the source as a whole, and about the selection.
        target: Findings about the target as a whole.
        tables: The selected tables, sorted by name.
    """

    source: tuple[Finding, ...]
    target: tuple[Finding, ...]
    tables: tuple[TableReport, ...]

    def all_findings(self) -> list[tuple[str, Finding]]:
        """Every finding with the place it belongs to, the worst first."""
        found = [("source", f) if f.table is None else (str(f.table), f) for f in self.source]
        found += [("target", f) if f.table is None else (str(f.table), f) for f in self.target]
        found += [(str(t.table), f) for t in self.tables for f in t.findings]
        return sorted(found, key=lambda item: list(Severity).index(item[1].severity))

    def count(self, severity: Severity) -> int:
        """How many findings are of `severity`."""
        return sum(f.severity is severity for _, f in self.all_findings())

    def raise_for_errors(self) -> None:
        """Do nothing unless something would stop a run.

        Raises:
            NeedsUserError: RPL-1202 when a finding is an ERROR.
        """
        if errors := self.count(Severity.ERROR):
            raise NeedsUserError(
                f"the assessment found {errors} error{'s' if errors > 1 else ''}",
                code=ASSESSED_AS_ERROR,
                hint="do what the findings say and assess again",
            )

    def to_json(self) -> dict[str, Any]:
        """The JSON form printed by `replicator assess --json`."""
        return {
            "source": [f.to_json() for f in self.source],
            "target": [f.to_json() for f in self.target],
            "tables": [t.to_json() for t in self.tables],
            "summary": {s.value.lower(): self.count(s) for s in Severity} | {"tables": len(self.tables)},
        }


def assess_pipeline(pipeline: Pipeline) -> PipelineAssessment:
    """Connect to both ends and assess them and every selected table; what fails on the way becomes a finding."""
    source: list[Finding] = []
    target: list[Finding] = []
    tables: list[TableReport] = []
    with pipeline.source.create_table_assessor() as at_source, pipeline.target.create_table_assessor() as at_target:
        source += at_source.assess().findings
        source += _about_blacklists(pipeline)
        source += _about_policies(pipeline)
        said = {finding.code for finding in source}
        source += [finding for finding in _about_log(pipeline) if finding.code not in said]
        source += _about_start(pipeline)
        target += at_target.assess().findings
        edits = _about_settings(pipeline)
        source += edits["source"]
        target += edits["target"]
        try:
            with pipeline.source.create_table_registry() as registry:
                stored = StoredTables.of(pipeline)
                tables += _assess_tables(pipeline, stored, registry, at_source, at_target, source)
        except ReplicatorError as error:
            # The assessment of a source that cannot be reached has reported that already.
            if not any(f.severity is Severity.ERROR for f in source):
                source.append(_finding_of(error, None))
    return PipelineAssessment(tuple(source), tuple(target), tuple(tables))


def assess_end(end: PipelineEnd) -> PipelineAssessment:
    """Connect to one end and assess it as a whole."""
    with end.plugin.create_table_assessor() as assessor:
        findings = assessor.assess().findings
    is_source = isinstance(end.plugin, DeltaSource)
    return PipelineAssessment(findings if is_source else (), () if is_source else findings, ())


def _assess_tables(
    pipeline: Pipeline,
    stored: StoredTables,
    registry: TableRegistry,
    at_source: TableAssessor,
    at_target: TableAssessor,
    findings: list[Finding],
) -> list[TableReport]:
    present = [summary.table for summary in registry.list_tables()]
    findings += _missing_tables(pipeline, present) + _needless_exclusions(pipeline, present)
    findings += _needless_order(pipeline, present)
    chosen = [selected for table in present if (selected := pipeline.selection.matches(table))]
    if not chosen:
        findings.append(_nothing_selected())
    return [_assess_table(selected, stored, registry, at_source, at_target) for selected in chosen]


def _assess_table(
    selected: SelectedTable,
    stored: StoredTables,
    registry: TableRegistry,
    at_source: TableAssessor,
    at_target: TableAssessor,
) -> TableReport:
    try:
        whole = registry.describe_table(selected.table)
        next_run = stored.next_run(selected, whole)
        about_edits = _about_columns(selected, whole, next_run)
        columns_read = selected.columns if next_run.follows is None else next_run.follows
        schema = whole if columns_read is None else whole.select(columns_read)
        source, target = at_source.assess_table(schema), at_target.assess_table(schema)
    except ReplicatorError as error:
        return TableReport(selected.table, (), (_finding_of(error, selected.table),))
    columns = _joined_columns(source.columns, target.columns)
    quiet = selected.quiet_columns
    findings = [
        f
        for f in (*about_edits, *_joined_findings(source.findings, target.findings))
        if f.severity is Severity.ERROR or f.column not in quiet
    ]
    return TableReport(selected.table, tuple(columns), tuple(findings))


def _joined_columns(source: Sequence[ColumnAssessment], target: Sequence[ColumnAssessment]) -> list[ColumnAssessment]:
    """What a column is at the source and becomes at the target, with the worse verdict of both."""
    at_target = {column.name: column for column in target}
    joined = []
    for column in source:
        other = at_target.pop(column.name, column)
        support = min(column.support, other.support, key=_WORST_FIRST.index)
        note = "; ".join(dict.fromkeys(n for n in (column.note, other.note) if n))
        joined.append(replace(column, target_type=other.target_type, support=support, note=note))
    return joined + list(at_target.values())


def _joined_findings(source: Sequence[Finding], target: Sequence[Finding]) -> list[Finding]:
    """The findings of both sides; what both find of a table is one finding with the impacts of both."""
    same = {f.name: f for f in target if not f.column and f.severity is not Severity.ERROR}
    joined = []
    for finding in source:
        other = same.pop(finding.name, None) if not finding.column else None
        joined.append(replace(finding, impact=f"{finding.impact}; {other.impact}") if other else finding)
    return joined + [f for f in target if f.column or f.severity is Severity.ERROR or f.name in same]


def _missing_tables(pipeline: Pipeline, present: Sequence[TableId]) -> list[Finding]:
    findings = []
    for entry in pipeline.selection.unmatched(present):
        pattern = is_pattern(entry)
        findings.append(
            Finding(
                name="missing_table",
                severity=Severity.WARNING if pattern else Severity.ERROR,
                description=f"no table is {'like' if pattern else 'named'} {entry_name(entry)}, or the user may not see it",
                impact="nothing is replicated for it",
                suggestion=("" if pattern else near_name(entry_name(entry), present))
                + "correct the name in `tables`, or grant SELECT on it; `replicator tables` lists what is seen",
                code=TABLE_MISSING,
            )
        )
    return findings


def _needless_exclusions(pipeline: Pipeline, present: Sequence[TableId]) -> list[Finding]:
    return [
        Finding(
            name="needless_exclusion",
            severity=Severity.WARNING,
            description=f"no table is {'like' if is_pattern(entry) else 'named'} {entry_name(entry)}, which `tables` excludes",
            impact="a table whose name was meant otherwise is replicated",
            suggestion="correct the name in `tables`, or remove the entry; `replicator tables` lists what is seen",
        )
        for entry in pipeline.selection.unmatched_exclusions(present)
    ]


def _needless_order(pipeline: Pipeline, present: Sequence[TableId]) -> list[Finding]:
    selected = [table for table in present if pipeline.selection.matches(table)]
    return [
        Finding(
            name="needless_order",
            severity=Severity.WARNING,
            description=f'`snapshot.order` names "{entry}", which no selected table is called',
            impact="a table whose name was meant otherwise is copied after those that are listed",
            suggestion="correct the name in `snapshot.order`, or remove it; `replicator tables` lists what is seen",
        )
        for entry in pipeline.config.snapshot.order
        if not any(entry_matches(entry, table) for table in selected)
    ]


def _about_blacklists(pipeline: Pipeline) -> list[Finding]:
    """The entries of the pipeline's `ddlBlacklist`s that concern nothing that the source emits."""
    config = pipeline.config
    listed = set(config.ddl_blacklist) if "ddl_blacklist" in config.model_fields_set else set()
    listed.update(name for entry in config.tables for name in entry.ddl_blacklist)
    unseen = sorted(listed & {operation.value for operation in pipeline.source.unseen_ddl})
    if not unseen:
        return []
    return [
        Finding(
            name="unseen_ddl",
            severity=Severity.INFO,
            description=f"`ddlBlacklist` names {', '.join(unseen)}, which the log of this source does not show",
            impact="the entry has no effect: a database is created with its first table, and never dropped",
            suggestion="nothing, or remove the entry",
        )
    ]


def _about_policies(pipeline: Pipeline) -> list[Finding]:
    """Whether the source can have the pipeline's `ddlPolicies`."""
    takes_snapshots = type(pipeline.source).create_snapshot_reader is not DeltaSource.create_snapshot_reader
    try:
        check_source(pipeline.config.ddl_policies, takes_snapshots=takes_snapshots)
    except ReplicatorError as error:
        return [replace(_finding_of(error, None), name="ddl_policies")]
    return []


def _about_settings(pipeline: Pipeline) -> dict[str, list[Finding]]:
    """What follows from edits of the plugins' settings since the last run."""
    config = pipeline.config
    directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name, retry_seconds=5)
    try:
        if directory.generations():
            return settings_edits(pipeline, directory.states().scoped("runtime"))
    except ReplicatorError as error:
        return {"source": [_finding_of(error, None)], "target": []}
    return {"source": [], "target": []}


def _about_log(pipeline: Pipeline) -> list[Finding]:
    """Whether the next run can go on where an earlier one ended."""
    config = pipeline.config
    directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name, retry_seconds=5)
    refused: dict[TableId | None, ReplicatorError] = {}
    looked_at: SavedOffset | None = None
    try:
        while directory.generations() and (saved := directory.offsets().latest()) not in (None, looked_at):
            looked_at = saved  # looked at again when a run is at work, and has gone on from there meanwhile
            refused = _refusals(pipeline, saved)
            if not refused:
                return []
    except ReplicatorError as error:
        refused = {None: error}
    return [_about_lost_log(error, table) for table, error in refused.items()]


def _about_start(pipeline: Pipeline) -> list[Finding]:
    """Where a pipeline that has not begun begins, when it names a position of the log."""
    config = pipeline.config
    directory = ReplicatorDirectory(config.offset_base_path, config.namespace, config.name, retry_seconds=5)
    try:
        if config.snapshot.from_ is None or (directory.generations() and directory.offsets().latest()):
            return []
        steps = first_start_step(pipeline)
    except RetryableError:
        return []  # the source's own assessment says that it is away
    except ReplicatorError as error:
        return [replace(_finding_of(error, None), name="start", impact="no run can begin")]
    return [Finding("start", Severity.INFO, step.effect, "rows are not copied", "nothing to do") for step in steps]


def _refusals(pipeline: Pipeline, saved: SavedOffset) -> dict[TableId | None, ReplicatorError]:
    """Why no run can go on at `saved`, by table; None for all. Empty also when the source is away, which its own assessment says."""
    config, source = pipeline.config, pipeline.source
    offset = source.offset_type.from_fields(saved.fields)
    refused: dict[TableId | None, ReplicatorError] = {}
    definition = EventReaderDefinition(
        StoredTables.of(pipeline).schemas(pipeline.selection), selects=pipeline.selection.selects
    )
    while True:
        try:
            source.check_log_of_tables(offset, definition, namespace=config.namespace, name=config.name)
        except RetryableError:
            return refused
        except ReplicatorError as error:
            table = next((table for table in definition.tables if str(table) == error.table), None)
            if table is None or config.on_table_error != "isolate":
                return {None: error}
            refused[table] = error
            others = {known: schema for known, schema in definition.tables.items() if known != table}
            definition = replace(definition, tables=others, stopped=definition.stopped | {table})
        else:
            return refused


def _about_lost_log(error: ReplicatorError, table: TableId | None) -> Finding:
    impact = (
        "the table stops when a run begins; the others go on" if table else "no run can go on where the last one ended"
    )
    return replace(_finding_of(error, table), name="log", impact=impact)


def _nothing_selected() -> Finding:
    return Finding(
        name="no_tables",
        severity=Severity.ERROR,
        description="no table is selected",
        impact="there is nothing to replicate",
        suggestion="name tables in `tables`, or grant SELECT on them; `replicator tables` lists what is seen",
        code=NOTHING_SELECTED,
    )


def _about_columns(selected: SelectedTable, schema: TableSchema, next_run: NextRun) -> list[Finding]:
    """What is wrong with the table's `columns`, and what the next run does with columns that changed."""
    if next_run.follows is not None:
        gone = [name for name in selected.columns or () if name not in schema]
        return [_renamed_columns(selected.table, gone)] if gone else []
    wrong = _wrong_columns(selected, schema)
    if not next_run.copied_again or wrong:
        return wrong
    copied_again = Finding(
        name="copied_again",
        severity=Severity.INFO,
        description=f"the next run copies the table again: {next_run.copied_again}",
        impact="all its rows are read and written once more",
        suggestion="nothing, or undo the edit of the pipeline",
        table=selected.table,
    )
    return [copied_again]


def _renamed_columns(table: TableId, gone: Sequence[str]) -> Finding:
    return Finding(
        name="columns_changed",
        severity=Severity.INFO,
        description=f"`columns` names {', '.join(gone)}, which the source has renamed or dropped since the table was copied",
        impact="a run follows what the log says of them; a new copy of the table would fail",
        suggestion="give the present names in `columns`; the table is copied again where they are other columns",
        table=table,
        code=COLUMN_MISSING,
    )


def _wrong_columns(selected: SelectedTable, schema: TableSchema) -> list[Finding]:
    findings = [
        Finding(
            name="missing_column",
            severity=Severity.ERROR,
            description=f'the table has no column "{name}"',
            impact="the selection cannot be met",
            suggestion=f"correct `columns`; the table has {', '.join(schema.names)}",
            table=selected.table,
            column=name,
            code=COLUMN_MISSING,
        )
        for name in selected.columns or ()
        if name not in schema
    ]
    if selected.columns is not None and not schema.primary_key:
        findings.append(
            Finding(
                name="columns_without_key",
                severity=Severity.ERROR,
                description="columns cannot be selected of a table without a key",
                impact="rows that differ only in other columns could not be distinguished",
                suggestion="replicate all its columns, or give it a primary key",
                table=selected.table,
                code=COLUMNS_WITHOUT_KEY,
            )
        )
    return findings


def _finding_of(error: ReplicatorError, table: TableId | None) -> Finding:
    return Finding(
        name="refused" if isinstance(error, NeedsUserError) else "unavailable",
        severity=Severity.ERROR,
        description=error.message,
        impact="the table cannot be replicated" if table else "nothing can be replicated",
        suggestion=error.hint or "fix it and assess again",
        table=table,
        code=error.code,
    )
