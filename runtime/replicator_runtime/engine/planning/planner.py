"""Makes the plan of a pipeline: of what is stored, and of the source where the decision needs it; changes nothing."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from replicator_runtime.engine.planning.archive_step import archive_step
from replicator_runtime.engine.planning.plan import Plan, Step, StepKind
from replicator_runtime.engine.planning.start_step import first_start_step, start_step
from replicator_runtime.engine.planning.table_steps import NotListedError, TableSteps
from replicator_runtime.engine.preparation.description import selected_part
from replicator_runtime.engine.run_state.error_policy import makes_copies
from replicator_runtime.engine.tables.table_store import TableStore
from replicator_runtime.observability.next_steps import without_copies
from replicator_runtime.setting_edits import edited_settings
from replicator_runtime.stored_forms import ONLY_COPIED
from replicator_sdk.discovery.assessment import Severity
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from replicator_runtime.config import Pipeline, SelectedTable
    from replicator_runtime.engine.run_state.run import Run
    from replicator_sdk import Offset, TableId, TableRegistry, TableSchema
    from replicator_sdk.discovery.table_registry import TableSummary
    from replicator_state import ReplicatorDirectory, StateStore

_UNSURE = "tables of earlier runs may stop, or may not be found, and a run cannot check it beforehand"


def stored_plan(pipeline: Pipeline, directory: ReplicatorDirectory) -> Plan:
    """The plan of what is stored, without the lease, so also while a run goes on; lists new tables and estimates costs.

    Raises:
        NeedsUserError: RPL-1211 when the source is another plugin than before; RPL-7161 for the state of a later release.
        ReplicatorError: When state or source cannot be read.
    """
    with _Planner(pipeline) as planner:
        if not directory.generations():
            none = TableSteps({}, None, pipeline.selection, None, planner.described)
            start = first_start_step(pipeline)
            return Plan(planner.fitting([*start, *planner.new_tables(none, since=_since(start))]), True)
        read = pipeline.source.offset_type.from_fields
        store = directory.states().scoped("runtime")
        tables, saved = TableStore(store, read), directory.offsets().latest()
        tables.load()
        steps = planner.table_steps(tables, None if saved is None else read(saved.fields))
        known = map(planner.in_mode, steps.of_known())
        start = first_start_step(pipeline) if saved is None else start_step(pipeline, tables.selection)
        new = planner.new_tables(steps, tables, since=_since(start if saved is None else []))
        found = [*planner.settings(store, tables.selection), *start, *known, *new]
        first = not tables.records and tables.selection is None
        return Plan(planner.fitting([planner.with_cost(step) for step in found]), first, directory.generation)


def plan_of_run(run: Run) -> Plan:
    """The steps of a run that begins, without those that every run may take: new tables. Asks the source only where it must.

    Offset and tables are loaded.

    Raises:
        ReplicatorError: As `stored_plan`.
    """
    tables = run.table_store
    with _Planner(run.pipeline) as planner:
        steps = planner.table_steps(tables, run.saved_offset)
        start = [] if run.saved_offset is None else start_step(run.pipeline, tables.selection)
        found = (*planner.settings(run.store, tables.selection), *start, *map(planner.in_mode, steps.of_known()))
        return Plan(planner.fitting(found), generation=run.generation)


class _Planner:
    """The source of one plan, connected when it is first asked."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._exit = ExitStack()
        self._registry: TableRegistry | None = None
        self._listed: dict[TableId, TableSummary] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def table_steps(self, tables: TableStore, saved_offset: Offset | None) -> TableSteps:
        """Of the stored tables."""
        return TableSteps(tables.records, tables.selection, self._pipeline.selection, saved_offset, self.described)

    def fitting(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """The steps, with suggestions that the source can do."""
        if makes_copies(self._pipeline.source):
            return tuple(steps)
        return tuple(replace(step, suggestion=without_copies(step.suggestion)) for step in steps)

    def settings(self, store: StateStore, before: Mapping[str, Any] | None) -> list[Step]:
        """The steps of edited settings."""
        steps = []
        for edited in edited_settings(self._pipeline, store):
            found = edited.finding
            asks = found.severity is not Severity.INFO and not edited.is_checked
            subject, why = f"{edited.end}.{edited.name}", _UNSURE if asks else ""
            steps.append(
                Step(StepKind.SETTING, subject, found.description, found.impact, why, found.code, found.suggestion)
            )
        now, was = self._pipeline.config.new_tables, (before or {}).get("newTables")
        if was not in (None, now):
            effect = "tables that appear later and match `tables` are " + (
                "taken in" if now == "include" else "left out"
            )
            steps.append(Step(StepKind.SETTING, "newTables", f'`newTables` was "{was}" and is "{now}"', effect))
        steps += archive_step(self._pipeline.config, before)
        was, mode = (before or {}).get("mode", "initial"), self._pipeline.config.snapshot.mode
        if store.get(ONLY_COPIED):
            steps.append(_of_released_log(mode))
        elif before is not None and was != mode:
            steps.append(_of_mode(was, mode))
        return steps

    def new_tables(self, steps: TableSteps, tables: TableStore | None = None, *, since: str) -> list[Step]:
        """The steps of selected tables that the source has and no run knew."""
        known = {} if tables is None else tables.records
        selects, new_tables = self._pipeline.selection.selects, self._pipeline.config.new_tables
        new = [table for table in self._tables() if selects(table) and table not in known]
        found = [steps.of_new(table, new_tables=new_tables) for table in sorted(new)]
        return [self.with_cost(self.in_mode(step, since)) for step in found if step is not None]

    def in_mode(self, step: Step, since: str = "") -> Step:
        """The step, as far as it copies a table, in the pipeline's `snapshot.mode`; `since` where changes of a new one begin."""
        if not step.copies or self._pipeline.config.snapshot.mode != "never":
            return step
        if since:
            effect = f"it is created at the target, empty, and gets the changes {since}"
            return replace(step, effect=effect, copies=False)
        effect = 'the table stops: only a new copy could follow, and `snapshot.mode` is "never"'
        suggestion = "undo the edit; or `replicator table resync NAME TABLE --in-place` once it has stopped"
        return replace(step, effect=effect, why="", code="RPL-2063", suggestion=suggestion, refused=True, copies=False)

    def with_cost(self, step: Step) -> Step:
        """The step with the rows that the source estimates."""
        summary = self._tables().get(step.table) if step.table is not None and step.copies else None
        known = summary is not None and summary.estimated_rows >= 0
        return replace(step, rows=summary.estimated_rows) if summary is not None and known else step

    def described(self, selected: SelectedTable) -> TableSchema:
        """The table as it is at the source, with the selected columns.

        Raises:
            NotListedError: When the source does not list it.
            NeedsUserError: When it cannot be replicated so.
        """
        try:
            return selected_part(selected, self._source().describe_table(selected.table))
        except NeedsUserError as error:
            if selected.table not in self._tables():
                raise NotListedError from error
            raise

    def _source(self) -> TableRegistry:
        if self._registry is None:
            self._registry = self._exit.enter_context(self._pipeline.source.create_table_registry())
        return self._registry

    def _tables(self) -> dict[TableId, TableSummary]:
        if self._listed is None:
            self._listed = {summary.table: summary for summary in self._source().list_tables()}
        return self._listed


def _since(start: list[Step]) -> str:
    """Since when a new table of a pipeline that copies no rows has changes; `start` is the step of a first start."""
    return "after that position" if start else "from then on"


def _of_released_log(mode: str) -> Step:
    """The step of a pipeline whose tables were copied, and whose log was released."""
    change = f'its tables were copied once, and `snapshot.mode` is "{mode}"'
    effect = "the run ends: the log was released when the copy had ended"
    suggestion = "`replicator reset PIPELINE` copies all tables again"
    return Step(StepKind.SETTING, "snapshot.mode", change, effect, code="RPL-2064", suggestion=suggestion, refused=True)


def _of_mode(was: str, now: str) -> Step:
    """The step of another `snapshot.mode`, of a pipeline whose log is still there."""
    change = f'`snapshot.mode` was "{was}" and is "{now}"'
    if now == "only":
        effect = "the next run ends when all changes until its start are at the target, and removes what the replicator has at the source"
        return Step(
            StepKind.SETTING,
            "snapshot.mode",
            change,
            effect,
            "no later run follows the log: only `replicator reset` begins again",
        )
    if now == "never":
        effect = "tables that are not at the target yet begin empty; others stay as they are, and stop where they need a new copy"
        return Step(StepKind.SETTING, "snapshot.mode", change, effect)
    effect = "tables that begin from now on are copied; those that began empty stay as they are until `replicator table resync` copies them"
    return Step(StepKind.SETTING, "snapshot.mode", change, effect)
