"""Compares the tables of a run with their copies as its schedule says, one after the other, in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from replicator_runtime.engine.run_state.open_run import directory_of
from replicator_runtime.engine.run_state.unknown_errors import summary, unexpected
from replicator_runtime.engine.schedule.schedule import keep_former_schedule, rename_scheduled, stored_schedule
from replicator_runtime.engine.schedule.verified_tables import VerifiedTable, VerifiedTables
from replicator_runtime.engine.snapshot.throttle import Throttle
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.verification.common_position import STOPPED
from replicator_runtime.engine.verification.reading import Reading
from replicator_runtime.engine.verification.table_comparison import Settings
from replicator_runtime.engine.verification.verify import Verified, verify_table
from replicator_runtime.spark.pools import BESIDE_STREAM, in_pool
from replicator_sdk.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.schedule.schedule import Schedule
    from replicator_runtime.engine.tables.table_store import TableRecord

log = structlog.get_logger()
_LOOK_SECONDS: Final = 5.0
_NEW_TABLES_SECONDS: Final = 60.0
_FIRST_LOOK_SECONDS: Final = 1.0
_LATE_SECONDS: Final = 600.0
_END_SECONDS: Final = 30.0
_KEYS_AT_MOST: Final = 200_000
_ROWS_AT_MOST: Final = 20_000_000
"""What differs is held in the driver's memory, and the rows beside it on the executors' disks, which the stream needs as well."""
_TAG: Final = "replicator-verification"


@contextmanager
def verifying(run: Run) -> Iterator[None]:
    """Follow the schedule of `run` within the block; it reads only, and what fails of it fails no table.

    A comparison that is under way when the block ends is given up, and begins again in the next run.
    """
    work = _Work(run)
    thread = threading.Thread(target=work.loop, name="verification", daemon=True)
    thread.start()
    try:
        yield
    finally:
        work.stop.set()
        until = time.monotonic() + _END_SECONDS
        while thread.is_alive() and time.monotonic() < until:
            work.cancel()  # again, until the thread has no job: it may not have begun yet
            thread.join(0.2)


class _Work:
    """Used by its own thread, but for `stop` and `cancel`.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self.stop = threading.Event()
        self._run = run
        self._reading = Reading(run.pipeline, directory_of(run.pipeline), self.stop, run.spark)
        self._spark: Any = None
        self._known: Schedule | None = None
        self._has_former = False
        self._not_before = 0.0

    def cancel(self) -> None:
        """End the Spark jobs that are under way. Safe from any thread."""
        context = self._spark
        if context is not None:
            with contextlib.suppress(Exception):  # its Java virtual machine may have ended
                context.cancelJobsWithTag(_TAG)

    def loop(self) -> None:
        """Until `stop` is set; an error of the state's store is said once, and what it kept from being done is done later."""
        said, wait = "", _FIRST_LOOK_SECONDS
        while not self.stop.wait(wait):
            wait = max(_LOOK_SECONDS, self._run.requests.look_seconds)
            try:
                self._follow()
                said = ""
            except FencedError:
                return
            except Exception as failure:  # noqa: BLE001 - data goes on
                if self.stop.is_set():
                    return
                if said != (said := summary(failure)):
                    log.warning("verification.not_done", error=said)

    def _follow(self) -> None:
        """Compare all tables that are due, those first that have waited longest."""
        if not self._has_former:
            keep_former_schedule(self._run)
            self._has_former = True
        schedule = stored_schedule(self._run.store)
        if schedule is None or self._run.progress.phase != "streaming":
            return
        if schedule == self._known and time.time() < self._not_before:
            return  # all tables would be loaded for nothing
        self._known = schedule
        found = VerifiedTables(self._run.store)
        try:
            while not self.stop.is_set() and (record := self._due(schedule, found)) is not None:
                self._compare(record, schedule, found)
                if self._run.progress.phase != "streaming" or stored_schedule(self._run.store) != schedule:
                    return
        finally:
            found.save()

    def _due(self, schedule: Schedule, found: VerifiedTables) -> TableRecord | None:
        """The table that has waited longest of those that are due; when none is, tables are looked at again at the next due time."""
        selects, known = self._run.pipeline.selection.matches, self._reading.records().values()
        names = found.follow_renames({record.copy_id: record.table for record in known if record.copy_id})
        if rename_scheduled(self._run.store, schedule, names):
            return None  # the schedule is read again at the next look
        records = [
            record
            for record in known
            if selects(record.table) is not None and (not schedule.tables or record.table in schedule.tables)
        ]
        found.keep_only({record.table for record in records})
        if schedule.tables:
            found.note_copies({record.table: record.copy_id for record in records if record.copy_id})
        working = [r for r in records if r.schemas and r.state is TableState.REPLICATING and r.pause is None]
        due = {
            record.table: found.get(record.table, record.copy_id).due_at(schedule.every_seconds, schedule.since)
            for record in working
        }
        first, now = min(working, key=lambda record: (due[record.table], str(record.table)), default=None), time.time()
        if first is not None and due[first.table] <= now:
            return first
        latest = now + _NEW_TABLES_SECONDS
        self._not_before = latest if first is None else min(latest, due[first.table])
        return None

    def _compare(self, record: TableRecord, schedule: Schedule, found: VerifiedTables) -> None:
        """Compare one table, and keep what was found."""
        context = self._spark = self._run.spark.session().sparkContext
        context.addJobTag(_TAG)
        throttle = Throttle(schedule.rows_per_second)
        limits = {"keys_at_most": _KEYS_AT_MOST, "rows_at_most": _ROWS_AT_MOST}
        settings = Settings(_LATE_SECONDS, 0, lambda _: None, throttle, **limits)
        try:
            with in_pool(context, BESIDE_STREAM):
                compared = verify_table(self._reading, record, settings)
        except Exception as failure:
            if self.stop.is_set() or self._run.spark.is_dead:
                raise  # it says nothing of the table
            compared = Verified(record.table, 0.0, None, unexpected(failure, 1))
        error = compared.error
        if (error is not None and error.code == STOPPED) or self.stop.is_set():
            return
        before = found.get(record.table, record.copy_id)
        found.note(record.table, _noted(before, compared))
        self._say(compared)

    def _say(self, compared: Verified) -> None:
        table, found = str(compared.table), compared.found
        if compared.error is not None:
            why = compared.error
            log.info("verification.no_result", table=table, code=why.code, error=why.message, hint=why.hint)
        elif found is not None and not found.is_equal:
            counts = {"missing": found.missing, "surplus": found.surplus, "different": found.different}
            log.error(
                "verification.different",
                table=table,
                code="RPL-5030",
                position=found.position,
                **counts,
                hint="`replicator verify PIPELINE TABLE --repair` compares again, and repairs",
            )
        else:
            log.info("verification.equal", table=table, seconds=round(compared.seconds, 1))


def _noted(before: VerifiedTable, compared: Verified) -> VerifiedTable:
    found, shown, now = compared.found, compared.error, time.time()
    if shown is not None:
        return replace(
            before,
            tried_at=now,
            error=f"{shown.code}: {shown.message}. Next: {shown.hint}",
            failures=before.failures + 1,
        )
    assert found is not None
    return VerifiedTable(
        before.copy_id, now, "equal" if found.is_equal else "different", found.missing, found.surplus,
        found.different, found.changing, found.rows_source, found.position, round(compared.seconds, 1), tried_at=now,
    )  # fmt: skip
