"""What processes of a pipeline have printed beside their log: the last words of Python, Java and the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from replicator_runtime.observability.redaction import redact
from replicator_runtime.service.observation.stored import pipeline_row
from replicator_runtime.service.pipelines.schemas import Process, ProcessOutput
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.store.tables import Instance

if TYPE_CHECKING:
    from replicator_runtime.service.context import ServiceContext

NO_PROCESS: Final = "RPL-1531"
NOT_READABLE: Final = "RPL-1532"


def read_output(context: ServiceContext, namespace: str, name: str, process: str | None, most: int) -> ProcessOutput:
    """The end of the output of a process.

    Args:
        context: The service's.
        namespace: The pipeline's.
        name: The pipeline's.
        process: Its id; None for the newest one that has started.
        most: So many bytes at most.

    Raises:
        ProblemError: 404 when there is no such pipeline, RPL-1531 when it has no such process; 503 RPL-1532 when it cannot be
            read now.
    """
    pipeline_row(context.database, namespace, name)
    with context.database.session() as session:
        rows = list(
            session.scalars(
                select(Instance)
                .where(Instance.namespace == namespace, Instance.name == name)
                .order_by(Instance.instance_id.desc())
            )
        )
    row = next((one for one in rows if process in {None, one.instance_id}), None)
    if row is None:
        raise ProblemError(
            404,
            NO_PROCESS,
            "the pipeline has no such process",
            hint="start the pipeline; GET …/pipelines/NAME/output without `process` lists those that are remembered",
        )
    try:
        printed = context.supervisor.output_of(row.launcher, row.handle, most)
    except OSError as error:
        raise ProblemError(
            503,
            NOT_READABLE,
            f"the output cannot be read now: {error.strerror}",
            hint="see that the service's user may read its work folder, then ask again",
        ) from error
    # The first line may be cut, and what is left of a secret in it would not be known as one.
    whole = printed if printed is None or len(printed) < most else printed[printed.find(b"\n") + 1 :]
    return ProcessOutput(
        process=_described(row),
        text=None if whole is None else redact(whole.decode("utf-8", "replace")),
        others=[_described(one) for one in rows if one is not row],
    )


def _described(row: Instance) -> Process:
    return Process(
        id=row.instance_id, command=row.command, started=row.started, ended=row.ended, exit_code=row.exit_code
    )
