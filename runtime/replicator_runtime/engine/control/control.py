"""Carries requests out in the order of their making, at least once each, and writes their outcomes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from replicator_runtime.engine.control import table_commands
from replicator_runtime.engine.lifecycle.table_lifecycle import TableLifecycle
from replicator_runtime.engine.run_state.open_run import keeping_lease, open_run
from replicator_runtime.engine.run_state.unknown_errors import summary
from replicator_sdk.errors import BugError, NeedsUserError, ReplicatorError
from replicator_sdk.failpoint import failpoint, register
from replicator_state import Outcome, OutcomeState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.config import Pipeline
    from replicator_state import Request

register("engine.request.begun", "engine.request.carried_out", "engine.request.finished")
log = structlog.get_logger()
_KEPT = timedelta(days=30)

COMMANDS: Mapping[str, Callable[[TableLifecycle, Request], list[str]]] = {
    "table.retry": table_commands.retry,
    "table.resync": table_commands.resync,
}
"""By name. Each returns lines for people, or raises `NeedsUserError` before it changes anything; doing it again changes nothing more."""


class Control:
    """The requests of one run. Used by the engine's main thread, between attempts.

    Args:
        lifecycle: Of all tables, loaded.
    """

    def __init__(self, lifecycle: TableLifecycle) -> None:
        self._lifecycle = lifecycle
        self._run = lifecycle.run
        self._requests = self._run.requests
        self._pruned = False

    def carry_out(self) -> None:
        """Carry out all that wait.

        Raises:
            FencedError: When a newer run has taken over; it carries them out.
            ReplicatorError: As the state's store fails (RPL-7103 to RPL-7105); what has no outcome is carried out later.
        """
        self._run.requested.clear()
        for request_id in self._requests.waiting():
            self._carry_out(request_id)
        if not self._pruned:
            self._requests.prune(_KEPT)
            self._pruned = True

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
        """Do it; the outcome."""
        try:
            request = self._read(request_id)
            if request is None:  # deleted by hand
                return self._outcome(OutcomeState.WITHDRAWN)
            lines = COMMANDS[request.command](self._lifecycle, request)
        except NeedsUserError as error:
            return self._not_done(OutcomeState.REFUSED, request_id, error)
        except ReplicatorError:
            raise  # the store is away, say: it is done later
        except Exception as error:
            log.debug("request.unexpected", exc_info=error)
            fault = BugError(
                f"a command failed: {summary(error)}",
                code="RPL-9017",
                hint="report it with the log of a run with --log-level debug; it is not tried again, and what it had done by then stays",
            )
            return self._not_done(OutcomeState.FAILED, request_id, fault)
        log.warning("request.done", request=request_id, command=request.command, by=request.by, what=lines)
        return self._outcome(OutcomeState.DONE, *lines)

    def _read(self, request_id: str) -> Request | None:
        try:
            request = self._requests.read(request_id)
        except ValueError as error:
            raise NeedsUserError(
                f"the request cannot be read: {error}", code="RPL-1225", hint="give the command again"
            ) from error
        if request is not None and request.command not in COMMANDS:
            raise NeedsUserError(
                f"this release has no command {request.command}",
                code="RPL-1224",
                hint="install one release for the run and for the command line; `replicator --version` says which it is",
            )
        return request

    def _not_done(self, state: OutcomeState, request_id: str, error: ReplicatorError) -> Outcome:
        log.warning("request.not_done", request=request_id, state=state.value, code=error.code, error=error.message)
        return Outcome(state, datetime.now(UTC), self._name, (), error.code, error.message, error.hint)

    def _outcome(self, state: OutcomeState, *lines: str) -> Outcome:
        return Outcome(state, datetime.now(UTC), self._name, lines)

    @property
    def _name(self) -> str:
        return f"run {self._run.run_id}, epoch {self._run.epoch}"


def carry_out_alone(pipeline: Pipeline) -> None:
    """Carry out what waits while no run goes on; connects to neither source nor target.

    Raises:
        ReplicatorError: RPL-7130 when a run has the lease, which carries it out itself.
    """
    with open_run(pipeline) as run, keeping_lease(run):
        lifecycle = TableLifecycle(run)
        run.load_offset()
        lifecycle.load()
        Control(lifecycle).carry_out()
