"""Asks for a command and waits for its outcome; does it in this process when no run goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from replicator_sdk.errors import BugError, NeedsUserError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from replicator_runtime.cli.report import Report
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
    """Ask the replicator for `command`, and report what happened to it.

    Args:
        report: Gets request and outcome.
        name: The replicator's name, or its pipeline JSON. Only with the JSON this process does it itself when no run goes on.
        namespace: As `find_state`.
        base: As `find_state`.
        command: A name of `engine.control.COMMANDS`.
        arguments: Of the command.
        timeout: How long to wait for the outcome; None not to wait.

    Raises:
        NeedsUserError: When it was refused; nothing was changed.
        BugError: When it failed by a fault of the program.
        RetryableError: RPL-1226 when it was withdrawn for lack of time; RPL-1227 when it is still to be done.
        ReplicatorError: RPL-1201 when the replicator never ran, or as the state's store fails.
    """
    from pathlib import Path

    from replicator_runtime.cli.state_lookup import find_state
    from replicator_state import OutcomeState

    location = find_state(name, namespace, base)
    requests = location.directory.requests()
    request = requests.submit(command, arguments)
    report.data = {"request": request.request_id, "state": "waiting", "lines": []}
    if timeout is None:
        report.line(f"asked for: {request.request_id}; `replicator requests {name}` shows what happens to it")
        return
    outcome = _wait(requests, request, None if location.config is None else Path(name), timeout)
    report.data |= {"state": outcome.state.value, "by": outcome.by, "lines": list(outcome.lines)}
    if outcome.code:
        kind = BugError if outcome.state is OutcomeState.FAILED else NeedsUserError
        raise kind(outcome.message, code=outcome.code, hint=outcome.hint)
    for line in outcome.lines:
        report.line(line)


def _wait(requests: RequestFolder, request: Request, pipeline: Path | None, timeout: float) -> Outcome:
    deadline, take_at = time.monotonic() + timeout, time.monotonic()
    while True:
        if pipeline is not None and time.monotonic() >= take_at:
            _carry_out(pipeline)
            take_at = time.monotonic() + _TAKE_SECONDS
        outcome = _outcome(requests, request)
        if outcome is not None:
            return outcome
        if time.monotonic() >= deadline:
            raise _too_late(requests, request, timeout)
        time.sleep(_LOOK_SECONDS)


def _outcome(requests: RequestFolder, request: Request) -> Outcome | None:
    try:
        return requests.outcome(request.request_id)
    except ValueError as error:
        raise NeedsUserError(
            f"the outcome of {request.command} cannot be read: {error}",
            code="RPL-1229",
            hint="`replicator status` shows the state of each table; give the command again if it was not done",
        ) from error


def _carry_out(pipeline: Path) -> None:
    """Do it here unless a run goes on, which will."""
    from replicator_runtime.config import load_pipeline
    from replicator_runtime.engine.control.control import carry_out_alone
    from replicator_sdk.errors import ReplicatorError
    from replicator_state import LEASE_HELD

    try:
        carry_out_alone(load_pipeline(pipeline))
    except ReplicatorError as error:
        if error.code != LEASE_HELD:
            raise


def _too_late(requests: RequestFolder, request: Request, timeout: float) -> RetryableError:
    if requests.withdraw(request.request_id):
        return RetryableError(
            f"no run has begun {request.command} within {timeout:g} s; it was withdrawn and nothing was changed",
            code="RPL-1226",
            hint="give the pipeline's file instead of a name, by which it is done without a run; or wait for longer with --timeout",
        )
    return RetryableError(
        f"{request.command} has no outcome after {timeout:g} s; it is still to be done, or is being done",
        code="RPL-1227",
        hint="`replicator requests` shows what happens to it",
    )
