"""Stops one table while the others continue, and records what it needs to continue after a repair."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.run_state.error_policy import Verdict, verdict
from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.observability.redaction import redact
from replicator_sdk.errors import ReplicatorError, TableHistoryLostError

if TYPE_CHECKING:
    from replicator_runtime.engine.run_state.run import Run
    from replicator_runtime.engine.tables.table_store import TableRecord

log = structlog.get_logger()


def mark_failing(run: Run, record: TableRecord, error: Exception) -> None:
    """Record with the table that it has stopped and why, and show it in the progress."""
    record.state = TableState.FAILING
    record.error = {
        "code": getattr(error, "code", ""),
        "message": redact(getattr(error, "message", str(error))),
        "hint": redact(getattr(error, "hint", "")),
    }
    run.progress.set_table(record.table, TableState.FAILING, redact(str(error)))


def stop_until_restart(run: Run, record: TableRecord, error: Exception) -> None:
    """Stop `record`'s table until the next start of the run; durable when it returns.

    A table whose log misses changes is copied again at that start: its snapshot is forgotten here.
    """
    log.error("table.failing", table=str(record.table), code=getattr(error, "code", ""), error=str(error))
    run.set_failing(record.table, error)
    run.retries.pop(record.table, None)
    if isinstance(error, TableHistoryLostError):
        record.forget_copy()
    mark_failing(run, record, error)
    run.table_store.save()


def stop_table(run: Run, record: TableRecord, error: Exception) -> float | None:
    """Stop `record`'s table while the others continue: for a while, or until the next start of the run.

    Returns:
        Seconds until the table is to be tried again, which `run.retries` holds as well; None for the next start.

    Raises:
        Exception: `error`, when it concerns more than the table, or no other table works.
    """
    others = any(
        r.selected and r is not record and r.state is not TableState.FAILING for r in run.table_store.records.values()
    )
    isolate = run.config.on_table_error == "isolate" and others and not run.spark_is_dead()
    decided = verdict(error, isolate=isolate)
    if decided is Verdict.STOP or not isolate:
        raise error
    delay = run.table_retry_budgets.next_delay(record.table) if decided is Verdict.RETRY else None
    if delay is None:
        stop_until_restart(run, record, error)
        return None
    code = getattr(error, "code", "")
    log.error("table.failing", table=str(record.table), code=code, error=str(error), seconds=round(delay, 1))
    run.retries[record.table] = time.monotonic() + delay
    mark_failing(run, record, error)
    return delay


def is_waiting(run: Run, record: TableRecord) -> bool:
    """Whether the table failed and is not to be tried again yet."""
    return run.retries.get(record.table, -math.inf) > time.monotonic()


def belongs_to_table(run: Run, record: TableRecord, error: Exception) -> bool:
    """Whether `error`, met while `record`'s table alone was asked for, stops this table only. Names it in the error."""
    if isinstance(error, ReplicatorError):
        error.table = error.table or str(record.table)
    return verdict(error, isolate=run.config.on_table_error == "isolate") is Verdict.TABLE


def record_lost_history(run: Run, error: Exception) -> None:
    """Record, before `error` ends the run, that its table is to be copied again where the log misses changes of it."""
    if not isinstance(error, TableHistoryLostError):
        return
    for record in run.table_store.records.values():
        if str(record.table) == error.table and record.schemas:
            record.forget_copy()
            mark_failing(run, record, error)
            run.table_store.save()
