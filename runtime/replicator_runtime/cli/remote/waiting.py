"""Waits for what a service does: a request that a run carries out, and a job that it has a command line for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from replicator_runtime.cli.remote.client import NOT_REACHED, error_of
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replicator_runtime.cli.remote.client import Pipeline
    from replicator_runtime.cli.report import Report

_LOOK_SECONDS: Final = 0.3
_AWAY_SECONDS: Final = 60.0
_NO_PIPELINE: Final = "RPL-1520"
_JOB_GOES_ON: Final = frozenset({"waiting", "running"})


def ask(
    report: Report, pipeline: Pipeline, part: str, body: Mapping[str, Any] | None = None, *, timeout: float | None
) -> None:
    """Ask a pipeline for something, and report what happened to it; print what was done.

    Args:
        report: Gets request and outcome as its data, as the local form of a command does.
        pipeline: Whose.
        part: Of the path.
        body: What is asked for.
        timeout: How long to wait for the outcome; None not to wait.

    Raises:
        ReplicatorError: When it was refused, or failed; RPL-1226 and RPL-1227 when the time is over.
    """
    request = str(pipeline.post(part, body)["requestId"])
    report.data = {"request": request, "state": "waiting", "lines": []}
    if timeout is None:
        report.line(f"asked for: {request}; `replicator requests NAME` shows what happens to it")
        return
    found = _outcome(pipeline, request, timeout)
    report.data |= {"state": found["state"], "by": found["endedBy"], "lines": list(found["lines"])}
    if found["state"] == "withdrawn":
        raise NeedsUserError("it was withdrawn", code="RPL-1230", hint="give the command again")
    if found["code"]:
        raise error_of({**found, "class": "bug" if found["state"] == "failed" else "needs_user"})
    for line in found["lines"]:
        report.line(line)


def _outcome(pipeline: Pipeline, request: str, timeout: float) -> Mapping[str, Any]:
    """A request that has ended.

    Raises:
        RetryableError: RPL-1226 when it was withdrawn for lack of time, RPL-1227 when it is being done.
    """
    deadline = time.monotonic() + timeout
    while True:
        found: Mapping[str, Any] = _read(pipeline, f"/requests/{request}")
        if found["state"] != "waiting":
            return found
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_SECONDS)
    problem = found.get("problem") or {}
    why = f": {problem['code']}: {problem['message']}" if problem else ""
    try:
        pipeline.delete(f"/requests/{request}")
    except ReplicatorError as error:
        if error.code == NOT_REACHED:
            raise
        raise RetryableError(
            f"it has no outcome after {timeout:g} s; it is still to be done, or is being done",
            code="RPL-1227",
            hint="`replicator requests` shows what happens to it",
        ) from None
    raise RetryableError(
        f"no run has begun it within {timeout:g} s; it was withdrawn and nothing was changed{why}",
        code="RPL-1226",
        hint="wait for longer with --timeout, or do not wait with --no-wait",
    )


def finish(report: Report, pipeline: Pipeline, job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wait for a job of the service, report its result and print what its command printed.

    When this is interrupted, the job is cancelled.

    Args:
        report: Gets the command's data and warnings.
        pipeline: Whose job it is.
        job: What the service answered.

    Returns:
        The job.

    Raises:
        ReplicatorError: That of the command.
    """
    path = f"{pipeline.namespace_path}/jobs/{job['id']}"
    try:
        while job["state"] in _JOB_GOES_ON:
            time.sleep(_LOOK_SECONDS)
            job = _read(pipeline, path, below=False)
    except KeyboardInterrupt:
        pipeline.service.delete(path)
        raise
    _show(report, job)
    return job


def gone(pipeline: Pipeline) -> None:
    """Wait until a pipeline that is being deleted is gone.

    Raises:
        ReplicatorError: Why it could not be deleted.
    """
    while True:
        try:
            item = _read(pipeline, "")
        except NeedsUserError as error:
            if error.code == _NO_PIPELINE:
                return
            raise
        fault = item.get("lastError")
        if item.get("exitCode") and item.get("nextStart") is None and fault:
            raise error_of({"exitCode": item["exitCode"], **fault, "table": fault.get("table") or None})
        time.sleep(_LOOK_SECONDS)


def _show(report: Report, job: Mapping[str, Any]) -> None:
    envelope = job.get("result") or {}
    report.data = envelope.get("data")
    for line in envelope.get("lines", ()):
        report.line(line)
    for warning in envelope.get("warnings", ()):
        report.warn(warning)
    if error := envelope.get("error"):
        raise error_of({"exitCode": job.get("exitCode"), **error})
    if job["state"] != "done":
        raise RetryableError(
            f"the service's job {job['id']} has ended without a result: {job['state']}",
            code="RPL-1591",
            hint="`replicator status NAME` shows what was done; give the command again",
        )


def _read(pipeline: Pipeline, path: str, *, below: bool = True) -> Any:
    """What is at a path; a service that is away for a moment is waited for."""
    deadline = time.monotonic() + _AWAY_SECONDS
    while True:
        try:
            return pipeline.get(path) if below else pipeline.service.get(path)
        except RetryableError as error:
            if error.code != NOT_REACHED or time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)
