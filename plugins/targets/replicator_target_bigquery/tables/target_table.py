"""One target table and whose it is: every commit goes through the fence here (design I6)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import FencedError, NeedsUserError, RetryableError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log.commit import CLAIMED, COMMITTED, Commit, TableState
from replicator_target_bigquery.commit_log.statements import insert, insert_if_newer, read_rows, rows_of, select
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.script import DONE, FENCED, MOVED, READY, guarded
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.tables.catalogue import Catalogue

register("bigquery.commit.before", "bigquery.commit.after", "bigquery.claimed")


class Session:
    """What all tables of a run share.

    Attributes:
        layout: What target tables look like.
        config: The settings.
        context: The run.
        jobs: Runs jobs.
        catalogue: Makes tables.
        storage: Cloud Storage.
        owner: The replicator, as `namespace/name`.
    """

    def __init__(
        self,
        layout: TableLayout,
        context: DeltaTargetContext,
        jobs: Jobs,
        catalogue: Catalogue,
        storage: Any,
    ) -> None:
        self.layout = layout
        self.config = layout.config
        self.context = context
        self.jobs = jobs
        self.catalogue = catalogue
        self.storage = storage
        self.owner = f"{context.namespace}/{context.replicator_name}"


class TargetTable:
    """A table of the target. Calls take turns, also from several threads."""

    def __init__(self, table: TableId, session: Session) -> None:
        self.table = table
        self.lock = threading.RLock()
        self.session = session
        self.place = TableRef.of(table, session.config)
        self._state: TableState | None = None
        self._found: TableInfo | None = None

    def forget(self) -> None:
        """Read everything anew the next time."""
        self._state, self._found = None, None

    def state(self) -> TableState:
        """What the commit log says, read once and then followed; from then on no older run can write the table.

        Raises:
            FencedError: When a newer run has touched it.
            NeedsUserError: When a table is there that is not this replicator's, or another table's.
        """
        if self._state is None:
            self._state = self._read()
        return self._state

    def _read(self) -> TableState:
        place, session = self.place, self.session
        if not session.catalogue.has_dataset(place, self.table):
            self._refuse_foreign_table()
            return TableState()
        state = self._select(select(place))
        self._check(state)
        if state.rows and state.epoch < session.context.epoch:
            claim = Commit(
                0, CLAIMED, session.owner, session.context.epoch, f"claim-{session.context.run_id}", self.table
            )
            state = self._select(f"{insert_if_newer(place, claim)};\n{select(place)}")
            self._check(state)
            failpoint("bigquery.claimed")
        if state.last is None:
            self._refuse_foreign_table()
        return state

    def _select(self, sql: str) -> TableState:
        rows = self.session.jobs.read(sql, f"reading the commits of {self.place.id}", self.table)
        return read_rows(rows, self.session.context.read_offset)

    def _check(self, state: TableState) -> None:
        if state.epoch > self.session.context.epoch:
            raise self.fenced()
        for row in state.rows[:1]:
            if row.owner != self.session.owner:
                raise self._foreign(f"of replicator {row.owner}")
            if row.source != self.table and not state.dropped:
                raise NeedsUserError(
                    f"{self.place.id} holds another table of this replicator already: {row.source}",
                    code="RPL-6523",
                    table=str(self.table),
                    hint="BigQuery takes the two names for one: leave one out, or replicate it to another `datasetName`",
                )

    def _refuse_foreign_table(self) -> None:
        """A table that no commit speaks of may only be an empty one, made by us just before, or for us by somebody."""
        found = self.found()
        if found is not None and found.rows:
            raise self._foreign("not written by a replicator")

    def _foreign(self, whose: str) -> NeedsUserError:
        return NeedsUserError(
            f"the table {self.place.id} is {whose}",
            code="RPL-6524",
            table=str(self.table),
            hint="choose another `datasetName`, or move that table away",
        )

    def fenced(self) -> FencedError:
        """A newer run has the table."""
        return FencedError(
            f"a newer run has taken the table over from run {self.session.context.epoch}",
            code="RPL-6525",
            table=str(self.table),
            hint="nothing to do while the newer run goes on; when there is none, the pipeline's state was deleted or is an old copy:"
            " delete its state folder and its tables at the target, then start the pipeline again: every table is copied",
        )

    def gone(self) -> SnapshotNeededError:
        """Somebody removed the table."""
        return SnapshotNeededError(
            f"the table {self.place.id} is gone",
            code="RPL-6556",
            table=str(self.table),
            hint="nothing to do: the table is copied again",
        )

    def found(self) -> TableInfo | None:
        """The table as it stands, looked at once and after each change of ours; None when it is not there."""
        if self._found is None:
            self._found = self.session.catalogue.find(self.place.id, self.table)
        return self._found

    def make(self, schema: TableSchema, *, replacing: bool = False) -> TableInfo:
        """The target table, made when it is not there.

        Args:
            schema: Its schema.
            replacing: Whether it begins empty, so that one which was there before may be gone.

        Raises:
            SnapshotNeededError: When somebody removed the table: an empty one in its place would miss all its rows.
        """
        self.session.catalogue.ensure_dataset(self.place, self.table)
        if self.found() is None:
            state = self.state()
            if not replacing and state.progress is not None and not state.dropped:
                raise self.gone()
            self.session.catalogue.create_target(self.place, schema, self.session.layout)
        found = self.found()
        if found is None:
            raise RetryableError(
                "a table that was just made is not there",
                code="RPL-6526",
                table=str(self.table),
                hint="retried by itself",
            )
        return found

    def changed(self) -> None:
        """The table's structure is another one from now on."""
        self._found = None

    def has(self, changes: TableChanges) -> bool:
        """Whether the table has the changes already.

        Nothing is committed while a change of structure is half done: it goes on from what it noted when it was begun.

        Raises:
            SnapshotNeededError: When rows come before the rest of that change.
        """
        state = self.state()
        if state.has_reached(changes.identity.position):
            return True
        if state.altering is None:
            return False
        if changes.rows == 0:
            return True
        raise SnapshotNeededError(
            "a change of structure was begun here, and its rest does not come before later rows",
            code="RPL-6565",
            table=str(self.table),
            position=str(changes.identity.position),
            hint="nothing to do: the table is copied again",
        )

    def row(
        self, progress: TableProgress | None, what: str, *, kind: str = COMMITTED, note: str | None = None
    ) -> Commit:
        """The row to commit with: it follows the newest one and keeps the chunks and former columns it knows of."""
        state, context = self.state(), self.session.context
        if note is None:
            note = former_columns(state.kept) if kind == COMMITTED else ""
        revision = state.revision + 1
        last = state.last
        known = last.chunks if last is not None and progress is not None and _same_plan(last, progress) else frozenset()
        chunks = known if progress is None or progress.snapshot_chunks is None else progress.snapshot_chunks
        return Commit(
            revision, kind, self.session.owner, context.epoch, f"{what}@{revision}", self.table, progress, chunks, note
        )

    def commit(
        self,
        row: Commit,
        statements: Sequence[str] = (),
        *,
        checks: Sequence[tuple[str, str]] = (),
        refuse: Callable[[str], Exception] | None = None,
    ) -> None:
        """Do `statements` and add `row` in one transaction, unless somebody else wrote the table.

        Args:
            row: From `row()`.
            statements: What is done together with it.
            checks: Further conditions that must not hold, and their outcomes.
            refuse: Makes the error for those outcomes.

        Raises:
            FencedError: When a newer run has the table.
            RetryableError: When it was written since this run looked.
        """
        place = self.place
        guards = [*self.state().checks(row.epoch, row.batch), *checks]
        sql = guarded(guards, rows_of(place), [*statements, insert(place, row)])
        failpoint("bigquery.commit.before")
        (answer,) = self.session.jobs.query(
            f"{place.dataset}_{place.table}_{row.batch}", sql, f"writing {place.id}", self.table
        )
        outcome = str(answer[0])
        if outcome not in {READY, DONE}:
            self.forget()
            if outcome == FENCED:
                raise self.fenced()
            if outcome != MOVED and refuse is not None:
                raise refuse(outcome)
            raise RetryableError(
                "the table was written by another run of this replicator since it was read",
                code="RPL-6527",
                table=str(self.table),
                hint="stop one of the two runs",
            )
        self._state = self.state().followed_by(row)
        failpoint("bigquery.commit.after")

    def at(self, position: Position, sequence: int = 0) -> TableProgress:
        """Progress of this run at `position`, snapshot state as it was."""
        context, progress = self.session.context, self.state().progress
        if progress is None:
            return TableProgress(context.generation, context.epoch, position, sequence)
        return replace(
            progress,
            generation=context.generation,
            epoch=context.epoch,
            position=position,
            last_sequence=max(sequence, progress.last_sequence),
            batch="",
        )


def former_columns(kept: Collection[str]) -> str:
    """The note of a row that was committed: the columns which are not the source's any more; empty for none."""
    return json.dumps(sorted(kept)) if kept else ""


def _same_plan(last: Commit, progress: TableProgress) -> bool:
    return last.progress is not None and last.progress.snapshot_id == progress.snapshot_id
