"""Applies DDL events. BigQuery changes structure outside transactions, so a replay finds which steps are done."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

import structlog

from replicator_sdk.errors import BugError, NeedsUserError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_target_bigquery.commit_log.commit import DDL_BEGUN, DROPPED
from replicator_target_bigquery.ddl.alteration import Alteration, Step
from replicator_target_bigquery.ddl.unmatched_rows import follow
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import clustering
from replicator_target_bigquery.schema.schema_check import schema_mismatch
from replicator_target_bigquery.tables.target_table import TargetTable, former_columns

log = structlog.get_logger(__name__)

register("bigquery.ddl.begun", "bigquery.ddl.step", "bigquery.ddl.done")


class TableDDL:
    """Changes of one table's structure. Called under the table's lock.

    Args:
        table: The table.
        alteration: Creates the steps of an ALTER_TABLE.
    """

    def __init__(self, table: TargetTable, alteration: type[Alteration] = Alteration) -> None:
        self._table = table
        self._alteration = alteration
        self._config = table.session.config

    def apply(self, event: DDLEvent) -> None:
        """Apply the event, unless its position is applied already."""
        if event.position is None:
            raise BugError("a DDL event without a position", code="RPL-6550", table=str(event.table))
        state = self._table.state()
        if state.has_reached(event.position):
            return
        failpoint("bigquery.ddl.begun")
        never = state.progress is None or state.dropped
        if event.operation is DDLOperation.DROP_TABLE:
            self._drop(event, never=never)
        elif event.operation is DDLOperation.CREATE_TABLE or never:
            self._create(event)  # altered before it was ever written: its present columns are enough
        elif event.operation is DDLOperation.TRUNCATE_TABLE:
            self._truncate(event)
        elif event.operation is DDLOperation.ALTER_TABLE:
            self._alter(event)
        else:
            raise BugError(f"{event.operation} is no change of one table", code="RPL-6551", table=str(event.table))
        failpoint("bigquery.ddl.done")

    def _truncate(self, event: DDLEvent) -> None:
        self._commit(event, [f"TRUNCATE TABLE {self._table.ref.sql}"])

    def _create(self, event: DDLEvent) -> None:
        if event.schema is None:
            raise BugError(f"a {event.operation} without a schema", code="RPL-6552", table=str(event.table))
        found = self._table.ensure_created(event.schema, replacing=True)
        if problem := schema_mismatch(self._table.session.layout.target_fields(event.schema, found.fields), found):
            raise SchemaDriftError(
                f"the source creates a table that the target holds already, and which {problem}",
                code="RPL-6553",
                table=str(event.table),
                position=str(event.position),
                hint="have what fills the log write the table's rows again, and move the target's table away: it is created again; or have all tables"
                " filled again: `replicator reset PIPELINE`",
            )
        self._commit(event)

    def _drop(self, event: DDLEvent, *, never: bool) -> None:
        if never:
            return
        table = self._table
        if self._config.require_manual_drops and table.session.catalogue.find(table.ref.id, event.table) is not None:
            raise NeedsUserError(
                f"the source dropped the table; `requireManualDrops` leaves it to you to drop {table.ref.id}",
                code="RPL-6554",
                table=str(event.table),
                position=str(event.position),
                hint="drop it there, then start again",
            )
        table.session.catalogue.drop(table.ref.id, event.table)
        table.session.catalogue.drop(table.ref.staging_id, event.table)
        table.drop_unmatched()
        table.changed()
        why = "the source dropped it; requireManualDrops is false"
        log.warning("bigquery.table_deleted", table=str(event.table), target=table.ref.id, why=why)
        assert event.position is not None
        table.commit(table.row(table.progress_at(event.position, event.sequence_number), "ddl", kind=DROPPED))

    def _alter(self, event: DDLEvent) -> None:
        """Run the remaining steps, after the columns they start from are noted."""
        table = self._table
        if table.is_replaced():
            raise table.replaced()
        before, begun = self._columns_before(event)
        alteration = self._alteration(table, event, before, begun)
        steps = alteration.steps()
        self._allow(steps, event)
        done = _done(steps, before, self._present())
        if done is None:
            raise _other_columns(event)
        self._recluster(steps[done:], event)
        for index, step in enumerate(steps[done:], done):
            table.session.jobs.query(
                f"{table.ref.dataset}_{table.ref.table}_ddl_{event.position}_{begun}_{index}",
                step.sql,
                f"altering {table.ref.id}",
                event.table,
            )
            table.changed()
            failpoint("bigquery.ddl.step")
        if event.schema is not None:
            wanted = clustering(event.schema)
            found = table.found()
            if found is not None and list(found.clustered) != wanted:
                table.session.catalogue.cluster(table.ref, wanted, event.table)
                table.changed()
        self._commit(event, self._unmatched(event), kept=alteration.kept)

    def _unmatched(self, event: DDLEvent) -> list[str]:
        """What has removals whose rows are not there yet follow the event, in its own commit."""
        table, schema = self._table, event.schema
        if schema is None or schema.primary_key or not table.has_unmatched():
            return []
        found = table.found()
        fields = table.session.layout.source_fields(schema, found.fields if found is not None else ())
        return [follow(table.ref.unmatched_sql, event, fields)]

    def _allow(self, steps: Sequence[Step], event: DDLEvent) -> None:
        """Refuse statements that the mode cannot run; this class allows all."""

    def _recluster(self, steps: Sequence[Step], event: DDLEvent) -> None:
        """BigQuery neither drops, renames nor retypes a column that a table is clustered by."""
        found = self._table.found()
        clustered = {c.lower() for c in found.clustered} if found else set()
        if any(touched.lower() in clustered for step in steps for touched in step.touches):
            self._table.session.catalogue.cluster(self._table.ref, (), event.table)
            self._table.changed()

    def _columns_before(self, event: DDLEvent) -> tuple[tuple[Field, ...], int]:
        """The columns the event starts from, and the revision under which they were noted.

        They are those noted when the event was begun, else the present ones, which are noted now. Names of jobs and of kept
        columns contain the revision, so that a replay finds both.
        """
        table = self._table
        what, noted, present = f"alter-{event.position}", table.state().altering, self._present()
        if noted is not None:
            before = tuple(Field.from_api(f) for f in json.loads(noted.note))
            if noted.batch.startswith(f"{what}@"):
                return before, noted.revision
            if _shape(before) != _shape(present):  # another change is incomplete, and is not replayed
                raise _other_columns(event)
        row = table.row(table.state().progress, what, kind=DDL_BEGUN, note=json.dumps([f.to_api() for f in present]))
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
        progress = self._table.progress_at(event.position, event.sequence_number)
        note = None if kept is None else former_columns(kept)
        row = self._table.row(progress, "ddl", note=note)
        self._table.commit(replace(row, place=self._table.here()), statements)


def _other_columns(event: DDLEvent) -> SnapshotNeededError:
    return SnapshotNeededError(
        "the target's table has other columns than before the change at the source",
        code="RPL-6555",
        table=str(event.table),
        position=str(event.position),
        hint="nothing to do: the table is copied again",
    )


def _done(steps: Sequence[Step], before: tuple[Field, ...], present: tuple[Field, ...]) -> int | None:
    """How many steps are certainly done, by the present columns; the rest may run again."""
    shapes = [before, *(step.after for step in steps)]
    return next((done for done, shape in enumerate(shapes) if _shape(shape) == _shape(present)), None)


def _shape(fields: Sequence[Field]) -> list[tuple[str, str, str]]:
    return [(f.name, f.sql, f.mode) for f in fields]
