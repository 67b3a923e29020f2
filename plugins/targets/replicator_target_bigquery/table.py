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
from replicator_target_bigquery.commits import (
    CLAIMED,
    COMMITTED,
    Commit,
    Standing,
    insert,
    insert_if_newer,
    read_rows,
    rows_of,
    select,
)
from replicator_target_bigquery.config import BigQueryConfig
from replicator_target_bigquery.jobs import Jobs
from replicator_target_bigquery.place import Place
from replicator_target_bigquery.sql.script import DONE, FENCED, MOVED, READY, guarded
from replicator_target_bigquery.warehouse import Found, Warehouse

register("bigquery.commit.before", "bigquery.commit.after", "bigquery.claimed")


class Session:
    """What all tables of a run share.

    Attributes:
        config: The settings.
        context: The run.
        jobs: Runs jobs.
        warehouse: Makes tables.
        storage: Cloud Storage.
        owner: The replicator, as `namespace/name`.
    """

    def __init__(
        self,
        config: BigQueryConfig,
        context: DeltaTargetContext,
        jobs: Jobs,
        warehouse: Warehouse,
        bucket: Any,
    ) -> None:
        self.config = config
        self.context = context
        self.jobs = jobs
        self.warehouse = warehouse
        self.storage = bucket
        self.owner = f"{context.namespace}/{context.replicator_name}"


class TargetTable:
    """A table of the target. Calls take turns, also from several threads."""

    def __init__(self, table: TableId, session: Session) -> None:
        self.table = table
        self.lock = threading.RLock()
        self.session = session
        self.place = Place.of(table, session.config)
        self._standing: Standing | None = None
        self._found: Found | None = None

    def forget(self) -> None:
        """Read everything anew the next time."""
        self._standing, self._found = None, None

    def standing(self) -> Standing:
        """What the commit log says, read once and then followed; from then on no older run can write the table.

        Raises:
            FencedError: When a newer run has touched it.
            NeedsUserError: When a table is there that is not this replicator's, or another table's.
        """
        if self._standing is None:
            self._standing = self._read()
        return self._standing

    def _read(self) -> Standing:
        place, session = self.place, self.session
        if not session.warehouse.has_dataset(place, self.table):
            self._refuse_stranger()
            return Standing()
        standing = self._select(select(place))
        self._check(standing)
        if standing.rows and standing.epoch < session.context.epoch:
            claim = Commit(
                0, CLAIMED, session.owner, session.context.epoch, f"claim-{session.context.run_id}", self.table
            )
            standing = self._select(f"{insert_if_newer(place, claim)};\n{select(place)}")
            self._check(standing)
            failpoint("bigquery.claimed")
        if standing.last is None:
            self._refuse_stranger()
        return standing

    def _select(self, sql: str) -> Standing:
        rows = self.session.jobs.read(sql, f"reading the commits of {self.place.id}", self.table)
        return read_rows(rows, self.session.context.read_offset)

    def _check(self, standing: Standing) -> None:
        if standing.epoch > self.session.context.epoch:
            raise self.fenced()
        for row in standing.rows[:1]:
            if row.owner != self.session.owner:
                raise self._not_ours(f"of replicator {row.owner}")
            if row.source != self.table and not standing.dropped:
                raise NeedsUserError(
                    f"{self.place.id} holds another table of this replicator already: {row.source}",
                    code="RPL-6523",
                    table=str(self.table),
                    hint="BigQuery takes the two names for one: leave one out, or replicate it to another `datasetName`",
                )

    def _refuse_stranger(self) -> None:
        """A table that no commit speaks of may only be an empty one, made by us just before, or for us by somebody."""
        found = self.found()
        if found is not None and found.rows:
            raise self._not_ours("not written by a replicator")

    def _not_ours(self, whose: str) -> NeedsUserError:
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

    def found(self) -> Found | None:
        """The table as it stands, looked at once and after each change of ours; None when it is not there."""
        if self._found is None:
            self._found = self.session.warehouse.find(self.place.id, self.table)
        return self._found

    def make(self, schema: TableSchema, *, replacing: bool = False) -> Found:
        """The target table, made when it is not there.

        Args:
            schema: Its schema.
            replacing: Whether it begins empty, so that one which was there before may be gone.

        Raises:
            SnapshotNeededError: When somebody removed the table: an empty one in its place would miss all its rows.
        """
        self.session.warehouse.make_dataset(self.place, self.table)
        if self.found() is None:
            standing = self.standing()
            if not replacing and standing.progress is not None and not standing.dropped:
                raise self.gone()
            self.session.warehouse.make_target(self.place, schema)
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
        standing = self.standing()
        if standing.stands_at(changes.identity.position):
            return True
        if standing.altering is None:
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
        standing, context = self.standing(), self.session.context
        if note is None:
            note = former_columns(standing.kept) if kind == COMMITTED else ""
        revision = standing.revision + 1
        last = standing.last
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
        guards = [*self.standing().checks(row.epoch, row.batch), *checks]
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
        self._standing = self.standing().followed_by(row)
        failpoint("bigquery.commit.after")

    def at(self, position: Position, sequence: int = 0) -> TableProgress:
        """Progress of this run at `position`, snapshot state as it was."""
        context, progress = self.session.context, self.standing().progress
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
