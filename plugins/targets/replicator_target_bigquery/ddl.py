"""Applies DDL events. BigQuery changes structure outside transactions, so each step can be found done by a replay."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from replicator_sdk.errors import BugError, NeedsUserError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_target_bigquery.alteration import Alteration, Step
from replicator_target_bigquery.commits import DDL_BEGUN, DROPPED
from replicator_target_bigquery.fields import Field
from replicator_target_bigquery.fitting import misfit
from replicator_target_bigquery.sql.text import name
from replicator_target_bigquery.table import TargetTable, former_columns
from replicator_target_bigquery.warehouse import clustering, target_fields

register("bigquery.ddl.begun", "bigquery.ddl.step", "bigquery.ddl.done")


class TableDDL:
    """Changes of one table's structure. Called under the table's lock.

    Args:
        table: The table.
        alteration: What makes the steps of an ALTER_TABLE.
    """

    def __init__(self, table: TargetTable, alteration: type[Alteration] = Alteration) -> None:
        self._table = table
        self._alteration = alteration
        self._config = table.session.config

    def apply(self, event: DDLEvent) -> None:
        """Apply the event, unless its position is applied already."""
        if event.position is None:
            raise BugError("a DDL event without a position", code="RPL-6550", table=str(event.table))
        standing = self._table.standing()
        if standing.stands_at(event.position):
            return
        failpoint("bigquery.ddl.begun")
        never = standing.progress is None or standing.dropped
        if event.operation is DDLOperation.DROP_TABLE:
            self._drop(event, never=never)
        elif event.operation is DDLOperation.CREATE_TABLE or never:
            self._create(event)  # altered before it was ever written: its present shape is enough
        elif event.operation is DDLOperation.TRUNCATE_TABLE:
            self._truncate(event)
        elif event.operation is DDLOperation.ALTER_TABLE:
            self._alter(event)
        else:
            raise BugError(f"{event.operation} is no change of one table", code="RPL-6551", table=str(event.table))
        failpoint("bigquery.ddl.done")

    def _truncate(self, event: DDLEvent) -> None:
        self._commit(event, [f"TRUNCATE TABLE {self._table.place.sql}"])

    def _create(self, event: DDLEvent) -> None:
        if event.schema is None:
            raise BugError(f"a {event.operation} without a schema", code="RPL-6552", table=str(event.table))
        found = self._table.make(event.schema, replacing=True)
        if problem := misfit(target_fields(event.schema, self._config), found):
            raise SchemaDriftError(
                f"the source creates a table that the target holds already, and which {problem}",
                code="RPL-6553",
                table=str(event.table),
                position=str(event.position),
                hint="take the table out of `tables`, run once and put it in again (it is copied again), or move the target's table away",
            )
        self._commit(event)

    def _drop(self, event: DDLEvent, *, never: bool) -> None:
        if never:
            return
        table = self._table
        if self._config.require_manual_drops and table.session.warehouse.find(table.place.id, event.table) is not None:
            raise NeedsUserError(
                f"the source dropped the table; `requireManualDrops` leaves it to you to drop {table.place.id}",
                code="RPL-6554",
                table=str(event.table),
                position=str(event.position),
                hint="drop it there, then start again",
            )
        table.session.warehouse.drop(table.place.id, event.table)
        table.session.warehouse.drop(table.place.staging_id, event.table)
        table.changed()
        assert event.position is not None
        table.commit(table.row(table.at(event.position, event.sequence_number), "ddl", kind=DROPPED))

    def _alter(self, event: DDLEvent) -> None:
        """Carry out the steps that are left, having noted from which columns they start."""
        table = self._table
        before, begun = self._columns_before(event)
        alteration = self._alteration(table, event, before, begun)
        steps = alteration.steps()
        self._allow(steps, event)
        done = _done(steps, before, self._present())
        if done is None:
            raise _other_columns(event)
        self._recluster(steps[done:], event)
        for place, step in enumerate(steps[done:], done):
            table.session.jobs.query(
                f"{table.place.dataset}_{table.place.table}_ddl_{begun}_{place}",
                step.sql,
                f"altering {table.place.id}",
                event.table,
            )
            table.changed()
            failpoint("bigquery.ddl.step")
        if event.schema is not None:
            wanted = clustering(event.schema)
            found = table.found()
            if found is not None and list(found.clustered) != wanted:
                table.session.warehouse.cluster(table.place, wanted, event.table)
                table.changed()
        self._commit(event, kept=alteration.kept)

    def _allow(self, steps: Sequence[Step], event: DDLEvent) -> None:
        """Refuse statements that the mode cannot run; this one runs all."""

    def _recluster(self, steps: Sequence[Step], event: DDLEvent) -> None:
        """BigQuery neither drops, renames nor retypes a column that a table is clustered by."""
        found = self._table.found()
        clustered = {c.lower() for c in found.clustered} if found else set()
        if any(touched.lower() in clustered for step in steps for touched in step.touches):
            self._table.session.warehouse.cluster(self._table.place, (), event.table)
            self._table.changed()

    def _columns_before(self, event: DDLEvent) -> tuple[tuple[Field, ...], int]:
        """The columns the event starts from, and the revision under which they were noted.

        They are as noted when the event was begun, else as they are, which is noted now. The revision makes the names of
        jobs and of columns that are kept, so that a replay finds both.
        """
        table = self._table
        what, noted, present = f"alter-{event.position}", table.standing().altering, self._present()
        if noted is not None:
            before = tuple(Field.from_api(f) for f in json.loads(noted.note))
            if noted.batch.startswith(f"{what}@"):
                return before, noted.revision
            if _shape(before) != _shape(present):  # another change is half done, and does not come again
                raise _other_columns(event)
        row = table.row(table.standing().progress, what, kind=DDL_BEGUN, note=json.dumps([f.to_api() for f in present]))
        table.commit(row)
        return present, row.revision

    def _present(self) -> tuple[Field, ...]:
        self._table.changed()
        found = self._table.found()
        if found is None:
            raise self._table.gone()
        return found.fields

    def _commit(self, event: DDLEvent, statements: Sequence[str] = (), *, kept: Collection[str] | None = None) -> None:
        assert event.position is not None
        progress = self._table.at(event.position, event.sequence_number)
        note = None if kept is None else former_columns(kept)
        self._table.commit(self._table.row(progress, "ddl", note=note), statements)


def _other_columns(event: DDLEvent) -> SnapshotNeededError:
    return SnapshotNeededError(
        "the target's table has other columns than before the change at the source",
        code="RPL-6555",
        table=str(event.table),
        position=str(event.position),
        hint="nothing to do: the table is copied again",
    )


def _done(steps: Sequence[Step], before: tuple[Field, ...], present: tuple[Field, ...]) -> int | None:
    """How many steps are surely done, by the columns that are there; the rest may be done once more."""
    shapes = [before, *(step.after for step in steps)]
    return next((done for done, shape in enumerate(shapes) if _shape(shape) == _shape(present)), None)


def _shape(fields: Sequence[Field]) -> list[tuple[str, str, str]]:
    return [(f.name, f.sql, f.mode) for f in fields]


def rename(former: TargetTable, table: TargetTable, event: DDLEvent) -> None:
    """Rename a table; a replay finds it done. Called under both tables' locks."""
    if event.position is None:
        raise BugError("a RENAME_TABLE without a position", code="RPL-6550", table=str(event.table))
    standing = table.standing()
    old = former.standing()
    arrived = standing.stands_at(event.position) and not standing.dropped
    if not arrived and table.found() is None:
        if old.progress is None or old.dropped or former.found() is None:
            raise NeedsUserError(
                "the table to rename is not at the target",
                code="RPL-6557",
                table=str(event.prev_table),
                hint="take a snapshot of the table under its new name",
            )
        if former.place.dataset != table.place.dataset:
            raise NeedsUserError(
                "the source moved the table to another schema; BigQuery cannot move one to another dataset",
                code="RPL-6558",
                table=str(event.table),
                hint="take a snapshot of the table under its new name",
            )
        # Noted under the new name first: a table of that name is ours from now on.
        table.commit(table.row(old.progress, "rename-begun", note=former_columns(old.kept)))
        failpoint("bigquery.ddl.begun")
        sql = f"ALTER TABLE {former.place.sql} RENAME TO {name(table.place.table)}"
        revision = table.standing().revision
        table.session.jobs.query(
            f"{table.place.dataset}_{table.place.table}_rename_{revision}",
            sql,
            f"renaming {former.place.id}",
            event.table,
        )
        failpoint("bigquery.ddl.step")
        former.changed()
        table.changed()
    if not arrived:
        table.commit(table.row(table.at(event.position, event.sequence_number), "ddl"))
    left = old.progress
    if left is not None and not old.dropped and not event.position <= left.position:  # else a later table of that name
        table.session.warehouse.drop(former.place.staging_id, event.table)
        former.commit(former.row(former.at(event.position, event.sequence_number), "ddl", kind=DROPPED))
    failpoint("bigquery.ddl.done")
