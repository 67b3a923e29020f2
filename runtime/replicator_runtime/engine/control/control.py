"""Carries requests out in the order of their making, at least once each, and writes their outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import structlog

from replicator_runtime.engine.control import dead_letters, held_changes, pause, table_commands
from replicator_runtime.engine.control.only_copied import refuse_command_after_copy
from replicator_runtime.engine.control.table_commands import Done, NotDoneError
from replicator_runtime.engine.control.table_drop import drop
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.run_state.open_run import keeping_lease, open_run
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk.errors import BugError, FencedError, NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import Outcome, OutcomeState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.config import Pipeline
    from replicator_runtime.engine.control.table_commands import Work
    from replicator_sdk.errors import ReplicatorError
    from replicator_state import Request

register("engine.request.begun", "engine.request.carried_out", "engine.request.finished")
log = structlog.get_logger()

Command: TypeAlias = "Callable[[TableLifecycle, Request], Work]"
"""Checks a request, changes nothing, and raises `NeedsUserError` to refuse it."""
COMMANDS: Mapping[str, Command] = {
    "dead-letters.replay": dead_letters.replay,
    "pause": pause.pause,
    "resume": pause.resume,
    "table.pause": table_commands.pause,
    "table.resume": table_commands.resume,
    "table.retry": table_commands.retry,
    "table.resync": table_commands.resync,
    "ddl.approve": held_changes.approve,
    "ddl.reject": held_changes.reject,
    "table.drop": drop,
}
"""By name, those that need neither source nor target."""


class Control:
    """The requests of one run. Used by the engine's main thread, between attempts.

    Args:
        lifecycle: Of all tables, loaded.
        more: Further commands than `COMMANDS`, by name.
    """

    def __init__(self, lifecycle: TableLifecycle, more: Mapping[str, Command] = MappingProxyType({})) -> None:
        self._lifecycle = lifecycle
        self._commands = {**COMMANDS, **more}
        self._run = lifecycle.run
        self._requests = self._run.requests

    def carry_out(self) -> None:
        """Carry out all that wait.

        Raises:
            FencedError: When a newer run has taken over; it carries them out.
            ReplicatorError: As the state's store fails (RPL-7103 to RPL-7105); what has no outcome is carried out later.
        """
        self._run.requested.clear()
        for request_id in self._requests.waiting():
            self._carry_out(request_id)

    def _carry_out(self, request_id: str) -> None:
        self._run.lease.check()
        if not self._requests.begin(request_id, self._name):
            # Who withdrew it may have ended before it could write the outcome.
            self._requests.finish(request_id, self._outcome(OutcomeState.WITHDRAWN))
            return
        failpoint("engine.request.begun")
        outcome = self._done(request_id)
        failpoint("engine.request.carried_out")
        self._requests.finish(request_id, outcome)
        failpoint("engine.request.finished")

    def _done(self, request_id: str) -> Outcome:
        """Check it and do it; the outcome."""
        try:
            request = self._requests.read(request_id)
        except ValueError as error:
            return self._not_done(OutcomeState.REFUSED, request_id, _unreadable(error))
        if request is None:  # deleted by hand
            return self._outcome(OutcomeState.WITHDRAWN)
        try:
            refuse_command_after_copy(self._run, request.command)
            work = self._command(request)(self._lifecycle, request)
        except NeedsUserError as error:
            return self._not_done(OutcomeState.REFUSED, request_id, error)
        except Exception as error:  # noqa: BLE001 - it would fail again at every attempt
            return self._failed(request_id, error)
        return self._carried_out(request, work)

    def _carried_out(self, request: Request, work: Work) -> Outcome:
        """Do what was checked; the outcome."""
        request_id = request.request_id
        try:
            done = work.carry_out() or Done(work.lines)
        except NotDoneError as refused:
            return self._not_done(OutcomeState.REFUSED, request_id, refused.error)
        except (FencedError, NeedsUserError, RetryableError):
            self._lifecycle.load()  # what the store has, which it did not take or may not have taken
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._lifecycle.load()
            return self._failed(request_id, error)
        log.warning("request.done", request=request_id, command=request.command, by=request.by, what=done.lines)
        return replace(self._outcome(OutcomeState.DONE, *done.lines), data=done.data)

    def _failed(self, request_id: str, error: Exception) -> Outcome:
        log.debug("request.unexpected", exc_info=error)
        fault = BugError(
            f"a command failed: {summary(error)}",
            code="RPL-9017",
            hint="report it with the log of a run with --log-level debug; it is not tried again, and what it had done by then stays",
        )
        return self._not_done(OutcomeState.FAILED, request_id, fault)

    def _not_done(self, state: OutcomeState, request_id: str, error: ReplicatorError) -> Outcome:
        log.warning("request.not_done", request=request_id, state=state.value, code=error.code, error=error.message)
        table = error.table or ""
        return Outcome(state, datetime.now(UTC), self._name, (), error.code, error.message, error.hint, table=table)

    def _outcome(self, state: OutcomeState, *lines: str) -> Outcome:
        return Outcome(state, datetime.now(UTC), self._name, lines)

    def _command(self, request: Request) -> Command:
        command = self._commands.get(request.command)
        if command is None:
            raise NeedsUserError(
                f"this release has no command {request.command}",
                code="RPL-1224",
                hint="install one release for the run and for the command line; `replicator --version` says which it is",
            )
        return command

    @property
    def _name(self) -> str:
        return f"run {self._run.run_id}, epoch {self._run.epoch}"


def _unreadable(error: ValueError) -> NeedsUserError:
    return NeedsUserError(f"the request cannot be read: {error}", code="RPL-1225", hint="give the command again")


def carry_out_alone(pipeline: Pipeline, more: Mapping[str, Command] = MappingProxyType({})) -> None:
    """Carry out what waits while no run goes on; of `COMMANDS` only `table.drop` connects, to the target.

    Args:
        pipeline: The pipeline.
        more: As for `Control`.

    Raises:
        ReplicatorError: RPL-7130 when a run has the lease, which carries it out itself.
    """
    with open_run(pipeline) as run, keeping_lease(run):
        run.alone = True
        lifecycle = TableLifecycle(run)
        run.load_offset()
        lifecycle.load()
        try:
            Control(lifecycle, more).carry_out()
        finally:
            run.spark.stop()
