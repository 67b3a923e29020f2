"""Errors of processes that have not said themselves what happened, as they are stored and shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from replicator_runtime.service.supervision.states import ENDED_AS_ASKED, RUN_ELSEWHERE, RUN_ON_FORMER_HOST

RUN_NOT_STARTED, RUN_NOT_REPORTED = "RPL-1523", "RPL-1524"
NOTHING_TO_DELETE = "RPL-1529"
_BY_SIGNAL = 128


@dataclass(frozen=True, slots=True)
class RunError:
    """An error of a process, in the words of a command's own."""

    code: str
    message: str
    hint: str


def not_started(reason: str) -> dict[str, str]:
    """The process could not be started."""
    return asdict(
        RunError(
            code=RUN_NOT_STARTED,
            message=f"the process cannot be started: {reason}",
            hint="see that the machine has memory, disk space and processes left; it is tried again",
        )
    )


def unreported(exit_code: int | None) -> dict[str, str]:
    """It has ended and printed no error; empty where that is as it should be."""
    if exit_code in ENDED_AS_ASKED:
        return {}
    end = "no one has seen its end" if exit_code is None else f"its exit code was {exit_code}"
    if exit_code is not None and exit_code > _BY_SIGNAL:
        end += f", killed by signal {exit_code - _BY_SIGNAL}"
    return asdict(
        RunError(
            code=RUN_NOT_REPORTED,
            message=f"the process ended without a report: {end}",
            hint="look at what it printed last (GET …/pipelines/NAME/output); where it was killed by signal 9, whether the machine "
            "ran out of memory",
        )
    )


def nothing_to_delete(printed: dict[str, str]) -> dict[str, str]:
    """`replicator delete` has found nothing of a pipeline that ran."""
    return asdict(
        RunError(
            code=NOTHING_TO_DELETE,
            message=f"the pipeline ran, and nothing of it is found now: {printed.get('message', '')}",
            hint="see that what holds its `offsetBasePath` is mounted, then delete the pipeline again; "
            "where its state is lost, that removes it, and what is at the source stays",
        )
    )


def run_elsewhere(detail: str) -> dict[str, str]:
    """It was started by another service, and may live."""
    return asdict(
        RunError(
            code=RUN_ELSEWHERE,
            message=f"its process was started where this service cannot see it: {detail}",
            hint="see that it does not run there any more, then start the pipeline again",
        )
    )


def run_on_former_host(host: str, *, renews: bool) -> dict[str, str]:
    """It was started on another host, and is waited for."""
    return asdict(
        RunError(
            code=RUN_ON_FORMER_HOST,
            message=f"its process runs on host {host}, which this service cannot reach: it renews its lease"
            if renews
            else f"its process was started on host {host}; it is started here once its lease shows that it is gone",
            hint="end it on that host; it is started here when its lease is not renewed any more"
            if renews
            else "wait: that takes about two minutes at most, while the state can be read",
        )
    )


def gone_with_host(host: str) -> dict[str, str]:
    """It was started on another host, and its lease says that it is gone."""
    return asdict(
        RunError(
            code=RUN_NOT_REPORTED,
            message=f"the process ended without a report: its host {host} is gone, and its lease was not renewed any more",
            hint="nothing is to be done: another one follows it on this host",
        )
    )
