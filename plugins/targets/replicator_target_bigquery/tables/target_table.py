"""A target table; every commit goes through here and is fenced, so that a superseded run changes nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from replicator_sdk.authoring.table_ownership import chunks_after, owner_of
from replicator_sdk.batch import TableChanges
from replicator_sdk.context import DeltaTargetContext
from replicator_sdk.errors import RetryableError, SnapshotNeededError
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableId, TableSchema
from replicator_sdk.target import TableProgress
from replicator_target_bigquery.api.jobs import Jobs
from replicator_target_bigquery.commit_log.commit import CLAIMED, COMMITTED, Commit, Place, TableState
from replicator_target_bigquery.commit_log.statements import insert, rows_of
from replicator_target_bigquery.schema.fields import Field
from replicator_target_bigquery.schema.layout import TableLayout
from replicator_target_bigquery.schema.table_info import TableInfo
from replicator_target_bigquery.sql.script import DONE, FENCED, MOVED, READY, Bounded, guarded
from replicator_target_bigquery.sql.table_ref import TableRef
from replicator_target_bigquery.tables.catalogue import LISTED_SECONDS, Catalogue
from replicator_target_bigquery.tables.first_states import FirstStates
from replicator_target_bigquery.tables.ownership import BigQueryOwnership

UNMATCHED_FIELDS: Final = (Field("_row", "STRING", "REQUIRED"), Field("_copies", "INT64", "REQUIRED"))
"""A row as `row_text` writes it, and how many copies of it are to be removed as soon as they arrive."""
_TABLES: Final = frozenset({"TABLE", "CLONE"})  # the emulator calls a clone so
register("bigquery.commit.before", "bigquery.commit.after", "bigquery.claimed")


class Session:
    """What all tables of a run share. Immutable; its parts are safe from several threads.

    Attributes:
        layout: What target tables look like.
        config: The settings.
        context: The run.
        jobs: Runs jobs.
        catalogue: Finds, creates and drops tables.
        storage: Cloud Storage.
        owner: The replicator, as `namespace/name`.
        states: Reads what the commit logs say of tables.
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
        self.owner = owner_of(context)
        self.states = FirstStates(jobs, context, self.owner)


class TargetTable:
    """A table of the target. Calls take turns, also from several threads."""

    def __init__(self, table: TableId, session: Session) -> None:
        self.table = table
        self.lock = threading.RLock()
        self.session = session
        self.ref = TableRef.of(table, session.config)
        self.ownership = BigQueryOwnership(table, session.context, self.ref.id)
        self._state: TableState | None = None
        self._found: TableInfo | None = None
        self._has_unmatched: bool | None = None
        self._looked_at = time.monotonic()

    def forget(self) -> None:
        """Read the commit log and the table's columns again on the next use."""
        self._state, self._found, self._has_unmatched = None, None, None

    def state(self) -> TableState:
        """What the commit log says, read once and then kept up to date; from then on no older run can write the table.

        Raises:
            FencedError: When a newer run has touched it.
            NeedsUserError: When the table exists and belongs to another replicator, or to another source table.
        """
        if self._state is None:
            self._state = self._read()
        return self._state

    def _read(self) -> TableState:
        session = self.session
        if not session.catalogue.has_dataset(self.ref, self.table):
            self._refuse_foreign_table()
            return TableState()
        state = session.states.read(self.ref, self.table)
        if state.rows:
            self.ownership.check(state.record)
            if state.rows[0].kind == CLAIMED:
                failpoint("bigquery.claimed")
        if state.last is None:
            self._refuse_foreign_table()
        return state

    def _refuse_foreign_table(self) -> None:
        """Refuse a table without commits unless it is empty: this run created it just before, or an operator did.

        A view or an external table is refused, too: it has no rows of its own, and would be dropped or written to.
        """
        self.refuse_other_kind()
        found = self.found()
        if found is not None and found.rows:
            self.ownership.check(None)

    def refuse_other_kind(self) -> None:
        """Refuse what is not a table, such as a view that was put in the place of one."""
        found = self.found()
        if found is not None and found.kind not in _TABLES:
            raise self.ownership.foreign(f"not a table of BigQuery's own ({found.kind})")

    def gone(self) -> SnapshotNeededError:
        """The error for a table that was removed at the target."""
        return SnapshotNeededError(
            f"the table {self.ref.id} is gone",
            code="RPL-6556",
            table=str(self.table),
            hint="nothing to do: the table is copied again",
        )

    def replaced(self, renamed: TableId | None = None) -> SnapshotNeededError:
        """The error for a table that another program has put in the place of the replicator's; `renamed` is its new name at the source."""
        return SnapshotNeededError(
            f"the table {self.ref.id} is not the one that was written last: another program has created it again or restored an older state of it",
            code="RPL-6578",
            table=str(renamed or self.table),
            hint="nothing to do: the table is copied again",
        )

    def is_replaced(self) -> bool:
        """Whether another program has put another table in the place of the one that the last commit is of.

        Its rows may be of another time than its position, which is stored apart from them.
        """
        self._looked_at = time.monotonic()
        place, catalogue = self.state().place, self.session.catalogue
        if place is None or catalogue.created(self.ref, self.table) in {0, place.table}:
            return False
        self.changed()  # the list is up to a minute old
        there = self.here()
        return there is not None and place.is_replaced_by(there)

    def here(self) -> Place | None:
        """Which table and commit log are there now; None when one of them is not."""
        found, log = self.found(), self.session.catalogue.log_created(self.ref, self.table)
        return Place(found.created, log) if found is not None and found.created and log else None

    def found(self) -> TableInfo | None:
        """What BigQuery reports of the table, read once and after each change of this run; None when it does not exist."""
        if self._found is None:
            self._found = self.session.catalogue.find(self.ref.id, self.table)
        return self._found

    def ensure_created(self, schema: TableSchema, *, replacing: bool = False, like: Sequence[Field] = ()) -> TableInfo:
        """The target table, created when it does not exist.

        Args:
            schema: Its schema.
            replacing: Whether it starts empty, so that an earlier table may have been removed.
            like: The columns of that earlier table: arrays and JSON keep their forms.

        Raises:
            SnapshotNeededError: When the table was removed at the target: an empty one in its place would miss all its rows.
        """
        self.session.catalogue.ensure_dataset(self.ref, self.table)
        if self.found() is None:
            state = self.state()
            if not replacing and state.progress is not None and not state.dropped:
                raise self.gone()
            self.session.catalogue.create_target(self.ref, schema, self.session.layout, like)
        found = self.found()
        if found is None:
            raise RetryableError(
                "a table that was just created does not exist",
                code="RPL-6526",
                table=str(self.table),
                hint="nothing to do: the batch is tried again",
            )
        return found

    def has_unmatched(self) -> bool:
        """Whether removals of it were ever stored whose rows were not there; asked once by each run."""
        if self._has_unmatched is None:
            self._has_unmatched = self.session.catalogue.find(self.ref.unmatched_id, self.table) is not None
        return self._has_unmatched

    def ensure_unmatched(self) -> None:
        """Create the table of removals whose rows are not there yet, unless it exists."""
        if not self.has_unmatched():
            catalogue = self.session.catalogue
            catalogue.create(catalogue.definition(self.ref.unmatched_id, UNMATCHED_FIELDS), self.table)
            self._has_unmatched = True

    def drop_unmatched(self) -> None:
        """Forget the removals whose rows are not there yet: the table's rows go."""
        if self.has_unmatched():
            self.session.catalogue.drop(self.ref.unmatched_id, self.table)
            self._has_unmatched = False

    def forget_unmatched(self) -> None:
        """Ask again on the next use."""
        self._has_unmatched = None

    def changed(self) -> None:
        """Note that the table's structure has changed: it is read again on the next use."""
        self._found = None

    def has(self, changes: TableChanges) -> bool:
        """Whether the table has the changes already.

        Nothing is committed while a change of structure is incomplete: it continues from the columns noted at its start.

        Raises:
            SnapshotNeededError: When rows arrive before the rest of that change.
        """
        state = self.state()
        if state.has_reached(changes.identity.position):
            return True
        if state.altering is None:
            return False
        if changes.rows == 0:
            return True
        raise SnapshotNeededError(
            "a change of structure was begun here, and later rows arrived before the rest of it",
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
        chunks = chunks_after(progress, state.record)
        place = None if kind != COMMITTED else self._place()
        batch = f"{what}@{revision}"
        return Commit(
            revision, kind, self.session.owner, context.epoch, batch, self.table, progress, chunks, note, place
        )

    def _place(self) -> Place | None:
        """That of the last commit, also when another table is there meanwhile: so it is noticed later.

        Where it is not known, and where the whole dataset was copied with its commit log, the table that is there counts from now on.
        """
        place = self.state().place
        is_known = place is not None and place.log == self.session.catalogue.log_created(self.ref, self.table)
        return place if is_known else self.here()

    def commit(
        self,
        row: Commit,
        statements: Sequence[str] = (),
        *,
        checks: Sequence[tuple[str, str]] = (),
        refuse: Callable[[str], Exception] | None = None,
        first: Bounded | None = None,
        measure: str = "",
    ) -> Any:
        """Run `statements` and add `row` in one transaction, unless another run wrote the table.

        Args:
            row: From `row()`.
            statements: What runs in the same transaction.
            checks: Further conditions that must not hold, and their outcomes.
            refuse: Makes the error for those outcomes, and that of `first`.
            first: Runs before `statements`; where it goes too far nothing is committed.
            measure: An expression.

        Returns:
            Its value after the commit; None where it is empty.

        Raises:
            FencedError: When a newer run has the table.
            RetryableError: When it was written since this run looked.
            SnapshotNeededError: When another program has put another table in its place.
        """
        ref = self.ref
        self._look_again(row)
        guards = [*self.state().checks(row.epoch, row.batch), *checks]
        sql = guarded(guards, rows_of(ref), [*statements, insert(ref, row)], first=first, measure=measure)
        failpoint("bigquery.commit.before")
        (answer,) = self.session.jobs.query(
            f"{ref.dataset}_{ref.table}_{row.batch}", sql, f"writing {ref.id}", self.table
        )
        outcome = str(answer[0])
        if outcome not in {READY, DONE}:
            self.forget()
            if outcome == FENCED:
                raise self.ownership.superseded()
            if outcome != MOVED and refuse is not None:
                raise refuse(outcome)
            raise RetryableError(
                "the table was written by another run of this replicator since it was read",
                code="RPL-6527",
                table=str(self.table),
                hint="retried by itself; if it comes again and again, stop the other run",
            )
        self._state = self.state().followed_by(row)
        failpoint("bigquery.commit.after")
        return answer[1] if measure else None

    def _look_again(self, row: Commit) -> None:
        """Each minute, refuse to write to a table that another program has put there; one that was put there since is noticed by the next look.

        Raises:
            SnapshotNeededError: RPL-6578.
        """
        is_due = time.monotonic() - self._looked_at >= LISTED_SECONDS
        if is_due and row.place is not None and row.place == self.state().place and self.is_replaced():
            raise self.replaced()

    def progress_at(self, position: Position, sequence: int = 0) -> TableProgress:
        """Progress of this run at `position`, snapshot state as it was."""
        return self.ownership.progress_at(self.state().progress, position, sequence)


def former_columns(kept: Collection[str]) -> str:
    """The note of a committed row: the columns that the source no longer has; empty for none."""
    return json.dumps(sorted(kept)) if kept else ""
