"""Asks for a command and waits for its outcome; does it in this process when no run goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicator_runtime.cli.report import say
from replicator_runtime.observability.next_steps import completed
from replicator_sdk.errors import BugError, NeedsUserError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.cli.report import Report
    from replicator_runtime.config import Pipeline
    from replicator_state import Outcome, Request, RequestFolder

_LOOK_SECONDS = 0.2
_TAKE_SECONDS = 2.0


def ask(
    report: Report,
    name: str,
    namespace: str,
    base: str | None,
    command: str,
    arguments: Mapping[str, Any],
    *,
    timeout: float | None,
) -> None:
    """Ask the replicator for `command`, and report what happened to it; print what was done.

    Arguments and errors are those of `outcome_of`.
    """
    outcome = outcome_of(report, name, namespace, base, command, arguments, timeout=timeout)
    for line in outcome.lines if outcome is not None else ():
        report.line(line)


def outcome_of(
    report: Report,
    name: str,
    namespace: str,
    base: str | None,
    command: str,
    arguments: Mapping[str, Any],
    *,
    timeout: float | None,
) -> Outcome | None:
    """Ask the replicator for `command`, and wait until it is done.

    Args:
        report: Gets request and outcome as its data.
        name: The replicator's name, or its pipeline JSON. Only with the JSON this process does it itself when no run goes on.
        namespace: As `find_state`.
        base: As `find_state`.
        command: A name of `engine.control.COMMANDS`, or of `engine.repair.REPAIRS`.
        arguments: Of the command.
        timeout: How long to wait for the outcome; None not to wait.

    Returns:
        What was done; None when it was not waited for.

    Raises:
        NeedsUserError: When it was refused; nothing was changed.
        BugError: When it failed by a fault of the program.
        RetryableError: RPL-1226 or RPL-1233 when it was withdrawn for lack of time; RPL-1227 when it is still to be done.
        ReplicatorError: RPL-1201 when the replicator never ran, or as the state's store fails.
    """
    from replicator_runtime.cli.state_lookup import find_state
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.observability.logs import configure_logging
    from replicator_state import OutcomeState

    configure_logging("error", "console")  # what is done here is reported, and data alone goes to standard output

    location = find_state(name, namespace, base)
    location.directory.check_user()
    pipeline = None if location.config is None or timeout is None else load_pipeline(Path(name))
    requests = location.directory.requests()
    request = requests.submit(command, arguments)
    report.data = {"request": request.request_id, "state": "waiting", "lines": []}
    if timeout is None:
        report.line(f"asked for: {request.request_id}; `replicator requests NAME` shows what happens to it")
        return None
    outcome = _Wait(requests, request, pipeline, timeout).outcome()
    report.data |= {"state": outcome.state.value, "by": outcome.by, "lines": list(outcome.lines)}
    if outcome.state is OutcomeState.WITHDRAWN:
        raise NeedsUserError(f"{command} was withdrawn", code="RPL-1230", hint="give the command again")
    if outcome.code:
        kind = BugError if outcome.state is OutcomeState.FAILED else NeedsUserError
        raise kind(outcome.message, code=outcome.code, hint=outcome.hint, table=outcome.table or None)
    return outcome


class _Wait:
    """Waits for the outcome of a request, which is withdrawn when that ends without one.

    Args:
        requests: Where it is.
        request: The request.
        pipeline: By which it is done here while no run goes on; None when only the name is known.
        timeout: How long to wait.
    """

    def __init__(self, requests: RequestFolder, request: Request, pipeline: Pipeline | None, timeout: float) -> None:
        self._requests = requests
        self._request = request
        self._pipeline = pipeline
        self._timeout = timeout
        self._run_goes_on = False

    def outcome(self) -> Outcome:
        """The outcome.

        Raises:
            RetryableError: RPL-1226 or RPL-1227 when the time is over.
            BaseException: Anything else that ends the wait; the request is withdrawn, or it is said that it is still to be done.
        """
        try:
            return self._awaited()
        except BaseException:
            if not self._requests.withdraw(self._request.request_id) and not self._has_ended():
                say(completed(f"the request {self._request.request_id} is still to be done: see `replicator requests`"))
            raise

    def _awaited(self) -> Outcome:
        deadline, take_at = time.monotonic() + self._timeout, time.monotonic()
        while True:
            if self._pipeline is not None and time.monotonic() >= take_at:
                self._carry_out(self._pipeline)
                take_at = time.monotonic() + _TAKE_SECONDS
            outcome = self._read()
            if outcome is not None:
                return outcome
            if time.monotonic() >= deadline:
                raise self._too_late()
            time.sleep(_LOOK_SECONDS)

    def _read(self) -> Outcome | None:
        try:
            return self._requests.outcome(self._request.request_id)
        except ValueError as error:
            raise NeedsUserError(
                f"the outcome of {self._request.command} cannot be read: {error}",
                code="RPL-1229",
                hint="`replicator status` shows the state of each table; give the command again if it was not done",
            ) from error

    def _has_ended(self) -> bool:
        return self._request.request_id not in self._requests.waiting()

    def _carry_out(self, pipeline: Pipeline) -> None:
        """Do it here unless a run goes on, which will."""
        from replicator_runtime.engine.control.control import carry_out_alone
        from replicator_runtime.engine.repair.command import REPAIRS
        from replicator_runtime.engine.schedule.schedule import VERIFY_EVERY, verify_every
        from replicator_sdk.errors import ReplicatorError
        from replicator_state import LEASE_HELD

        try:
            carry_out_alone(pipeline, {**REPAIRS, VERIFY_EVERY: verify_every})
        except ReplicatorError as error:
            if error.code != LEASE_HELD:
                raise
            self._run_goes_on = True

    def _too_late(self) -> RetryableError:
        command, timeout = self._request.command, self._timeout
        if not self._requests.withdraw(self._request.request_id):
            return RetryableError(
                f"{command} has no outcome after {timeout:g} s; it is still to be done, or is being done",
                code="RPL-1227",
                hint="`replicator requests` shows what happens to it",
            )
        if self._run_goes_on or self._pipeline is not None:
            return RetryableError(
                f"the run or command that goes on has not begun {command} within {timeout:g} s; it was withdrawn and nothing was changed",
                code="RPL-1233",
                hint="it copies, repairs, or reads a part of the log again, before it looks: wait for longer with --timeout, or do not wait with --no-wait",
            )
        return RetryableError(
            f"no run has begun {command} within {timeout:g} s; it was withdrawn and nothing was changed",
            code="RPL-1226",
            hint="give the pipeline's file instead of a name, by which it is done without a run; or wait for longer with --timeout",
        )
