"""Finds what follows for tables from an edit of `tables`, `columns` or a blacklist; changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_runtime.config.selection import matched_by
from replicator_runtime.engine.planning.plan import Step, StepKind
from replicator_runtime.engine.preparation.scope_edits import why_copied_again
from replicator_runtime.engine.tables.table_scope import TableScope
from replicator_runtime.engine.tables.table_state import TableState
from replicator_sdk.errors import NeedsUserError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from replicator_runtime.config import SelectedTable, Selection
    from replicator_runtime.engine.tables.table_store import TableRecord
    from replicator_sdk import Offset, TableId, TableSchema

_IN_PLACE = "it is copied again in place: its rows and columns are replaced, rows included that the source has deleted; readers see a part of it until the copy has ended"
_REPLACED = "rows or columns at the target are replaced"
_ONE_WAY = "only a new copy of the table undoes it"


class NotListedError(Exception):
    """The source does not list a table now, so that it cannot be described."""


class TableSteps:
    """What an edited selection is to the tables of earlier runs.

    Args:
        records: The stored tables.
        before: The stored selection; None when unknown.
        selection: The pipeline's.
        saved_offset: Of the last run.
        described: Describes a selected table as it is at the source, with the selected columns; asked only where the decision
            needs it. Raises `NotListedError`.
    """

    def __init__(
        self,
        records: Mapping[TableId, TableRecord],
        before: Mapping[str, Any] | None,
        selection: Selection,
        saved_offset: Offset | None,
        described: Callable[[SelectedTable], TableSchema],
    ) -> None:
        self._records = records
        self._before = before
        self._selection = selection
        self._saved_offset = saved_offset
        self._described = described
        self._copies = not any(map(replicates_without_copy, records.values()))

    def of_known(self) -> list[Step]:
        """The steps of tables that earlier runs knew, by name.

        Raises:
            ReplicatorError: When the source cannot be asked.
        """
        records = [self._records[table] for table in sorted(self._records)]
        steps = (step for record in records for step in (self._step(record), self._rows(record)))
        return [step for step in steps if step is not None]

    def of_new(self, table: TableId, *, new_tables: str) -> Step | None:
        """The step of a selected table that the source has and no run knew; None when no edit brings it in."""
        before = self._before
        edited = before is None or not matched_by(before["entries"], table)
        if not edited and not (before is not None and before.get("newTables") == "ignore" and new_tables == "include"):
            return None
        effect = "it is created at the target, and what the source has of it is copied"
        return Step(StepKind.TABLE_IN, str(table), "selected", effect, table=table, copies=True)

    def _step(self, record: TableRecord) -> Step | None:
        selected = self._selection.matches(record.table)
        if selected is None:
            return self._out(record)
        if not record.schemas or record.left_at is not None:
            return self._back(record)
        return self._edited(record, selected)

    def _rows(self, record: TableRecord) -> Step | None:
        """The step of a table whose `where` was edited since its copy began."""
        selected = self._selection.matches(record.table)
        if selected is None or record.snapshot is None or record.snapshot.where == selected.where:
            return None
        if record.snapshot.is_empty:
            return None  # `snapshot.mode` has a step of its own
        was, now = (f"`{text}`" if text else "all rows" for text in (record.snapshot.where, selected.where))
        if record.needs_snapshot:
            effect, suggestion = "its copy, which has not ended, begins again", ""
        else:
            effect = "the target keeps the rows that it has; the next copy of the table follows the new condition"
            suggestion = "`replicator table resync NAME TABLE --in-place` makes that copy now"
        step = Step(StepKind.ROWS, str(record.table), f"its copy has {was}, and `where` selects {now}", effect)
        return replace(step, suggestion=suggestion, table=record.table, copies=record.needs_snapshot)

    def _out(self, record: TableRecord) -> Step | None:
        known = bool(record.schemas) if self._copies else record.left_at is None and not record.passed_over
        if not known:
            return None
        return Step(
            StepKind.TABLE_OUT,
            str(record.table),
            "not selected any more",
            "its table at the target stays as it is, and takes no changes from now on",
            _ONE_WAY if self._is_replicated(record) else "",
            table=record.table,
        )

    def _back(self, record: TableRecord) -> Step | None:
        if self._before is None or matched_by(self._before["entries"], record.table):
            return None
        if not self._copies:
            goes_on = record.goes_on_at(self._saved_offset)
            effect = "it goes on" if goes_on else "it is refused where changes of it in the log were passed meanwhile"
            code = "" if goes_on else "RPL-2005"
            return Step(StepKind.TABLE_IN, str(record.table), "selected again", effect, code=code, table=record.table)
        return Step(
            StepKind.TABLE_IN,
            str(record.table),
            "selected again",
            _IN_PLACE,
            _REPLACED,
            table=record.table,
            copies=True,
        )

    def _edited(self, record: TableRecord, selected: SelectedTable) -> Step | None:
        now = TableScope.of(selected)
        if now == record.scope:
            return None
        kind, change = _difference(record, now)
        step = Step(kind, str(record.table), change, "", table=record.table)
        try:
            why = why_copied_again(record, selected, lambda: self._described(selected), copies=self._copies)
        except NotListedError:
            why = "other columns are selected"
        except NeedsUserError as error:
            effect = f"the table stops: {error.message}"
            return replace(step, effect=effect, code=error.code, suggestion=error.hint, refused=True)
        if not why:
            return self._kept(record, now, step)
        if self._is_replicated(record):
            return replace(step, effect=_IN_PLACE, why=_REPLACED, copies=True)
        return replace(step, effect="its copy, which has not ended, begins again", copies=True)

    def _kept(self, record: TableRecord, now: TableScope, step: Step) -> Step | None:
        """The step of a table that is not copied again; None when the edit says the same in other words."""
        before = record.scope
        if before is None:
            return None
        if before.left_out < now.left_out:
            loses = _ONE_WAY if self._is_replicated(record) else ""
            return replace(step, effect="these changes do not reach the target from now on", why=loses)
        if before.structure in (None, now.structure):
            return None
        return replace(step, effect="changes of structure at the source follow it from the next run on")

    def _is_replicated(self, record: TableRecord) -> bool:
        """Whether the target has a whole copy that nothing else replaces."""
        return not self._copies or not (record.needs_snapshot or record.wants_copy)


def replicates_without_copy(record: TableRecord) -> bool:
    """Whether it shows that the engine copies no tables of this source."""
    return record.snapshot is None and (record.created or record.state is TableState.REPLICATING)


def _difference(record: TableRecord, now: TableScope) -> tuple[StepKind, str]:
    """What was edited, and how it was and is."""
    before, parts = record.scope, []
    if before is None or before.columns != now.columns:
        was = "as an earlier version copied it" if before is None else _columns(before.columns)
        parts.append(f"`columns` were {was} and are {_columns(now.columns)}")
    columns = bool(parts)
    for name, old, new in _lists(before, now):
        words = [f"{', '.join(sorted(new - old))} left out"] * bool(new - old)
        words += [f"{', '.join(sorted(old - new))} let in again"] * bool(old - new)
        parts += [f"{name}: {', '.join(words)}"] * bool(words)
    return StepKind.COLUMNS if columns else StepKind.OPERATIONS, "; ".join(parts)


def _lists(before: TableScope | None, now: TableScope) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    if before is None:
        return []
    lists = [("operations", before.left_out, now.left_out)]
    if before.structure is not None and now.structure is not None:
        lists.append(("operations of structure", before.structure, now.structure))
    return lists


def _columns(names: frozenset[str] | None) -> str:
    return "all" if names is None else ", ".join(sorted(names))
