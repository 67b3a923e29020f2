"""The rows of jobs."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import defer

from replicator_runtime.service.operations.job_process import bounded
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.store.tables import Job

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replicator_runtime.service.store.database import Database

UNKNOWN_JOB: Final = "RPL-1564"
WAITING, RUNNING = "waiting", "running"
OPEN: Final = (WAITING, RUNNING)
_KEPT: Final = 200
_WHOLE_RESULTS: Final = 20
_SHORT_BYTES: Final = 16 * 1024
"""Of a pipeline's jobs before the newest the results are cut to this."""


@dataclass(frozen=True, slots=True)
class JobRecords:
    """Rows of jobs; those of this service say its work folder as long as they are open. Safe from any thread.

    Args:
        database: The service's.
        work_folder: Where the folders of its jobs are.
    """

    database: Database
    work_folder: Path

    @property
    def place(self) -> str:
        """What open jobs of this service have for their result: another service leaves them alone while they are renewed."""
        return json.dumps({"place": self._here, "seen": datetime.now(UTC).isoformat()})

    @property
    def _here(self) -> str:
        return f"{socket.gethostname()}:{self.work_folder}"

    def is_here(self, job: Job) -> bool:
        """Whether an open job is of this host and work folder."""
        return bool(_place(job).get("place") == self._here)

    def seen(self, job: Job) -> datetime:
        """When a service had an open job in its memory the last time, as far as it is known."""
        seen = _place(job).get("seen")
        return job.started if seen is None else max(job.started, datetime.fromisoformat(seen))

    def renew(self, job_ids: Sequence[str]) -> None:
        """Note that a service has these jobs in its memory."""
        if job_ids:
            with self.database.session() as session:
                session.execute(
                    update(Job).where(Job.job_id.in_(job_ids), Job.state.in_(OPEN)).values(output=self.place)
                )

    def known(self, job_ids: Sequence[str]) -> set[str]:
        """Those of these jobs that have a row."""
        with self.database.session() as session:
            return set(session.scalars(select(Job.job_id).where(Job.job_id.in_(job_ids))))

    def add(self, job_id: str, namespace: str, name: str, command: Sequence[str], by: str) -> Job:
        """A new job, which waits."""
        job = Job(
            job_id=job_id,
            namespace=namespace,
            name=name,
            command=json.dumps(list(command), ensure_ascii=False),
            by=by,
            state=WAITING,
            started=datetime.now(UTC),
            output=self.place,
        )
        with self.database.session() as session:
            session.add(job)
        return job

    def find(self, namespace: str, job_id: str) -> Job:
        """A job with its result.

        Raises:
            ProblemError: 404 RPL-1564 when there is none.
        """
        with self.database.session() as session:
            found = session.get(Job, job_id)
        if found is None or found.namespace != namespace:
            raise ProblemError(
                404, UNKNOWN_JOB, "there is no such job", hint=f"GET /v1/contexts/{namespace[:80]}/jobs lists them"
            )
        return found

    def newest(self, namespace: str, pipeline: str | None, after: str | None, limit: int) -> list[Job]:
        """Jobs without their results, the newest first, and one more than `limit`."""
        query = select(Job).options(defer(Job.output)).where(Job.namespace == namespace)
        if pipeline is not None:
            query = query.where(Job.name == pipeline)
        if after is not None:
            query = query.where(Job.job_id < after)
        with self.database.session() as session:
            return list(session.scalars(query.order_by(Job.job_id.desc()).limit(limit + 1)))

    def open_ones(self) -> list[Job]:
        """Jobs of all services that have not ended, the oldest first."""
        query = select(Job).where(Job.state.in_(OPEN)).order_by(Job.job_id)
        with self.database.session() as session:
            return list(session.scalars(query))

    def change(self, job_id: str, state: str, before: Sequence[str], **values: Any) -> bool:
        """Have a job that is in one of the states `before` be in `state`; whether it was."""
        with self.database.session() as session:
            done = session.execute(
                update(Job).where(Job.job_id == job_id, Job.state.in_(before)).values(state=state, **values)
            )
            return bool(done.rowcount)  # type: ignore[attr-defined]  # of a CursorResult

    def prune(self, namespace: str, name: str) -> list[str]:
        """Cut the results of older jobs of a pipeline that have ended, and delete the oldest; the ids of these."""
        of_it = (Job.namespace == namespace, Job.name == name, Job.state.not_in(OPEN))
        with self.database.session() as session:
            ended = select(Job.job_id).where(*of_it).order_by(Job.job_id.desc())
            old = list(session.scalars(ended.offset(_KEPT)))
            if old:
                session.execute(delete(Job).where(Job.job_id.in_(old)))
            older = select(Job).where(
                Job.job_id.in_(ended.offset(_WHOLE_RESULTS)), func.length(Job.output) > 2 * _SHORT_BYTES
            )
            for job in session.scalars(older):
                job.output = _shortened(job.output)
        return old


def _shortened(output: str) -> str:
    try:
        found = json.loads(output)
    except ValueError:
        return ""
    return json.dumps(bounded(found, _SHORT_BYTES), ensure_ascii=False) if isinstance(found, dict) else ""


def _place(job: Job) -> dict[str, Any]:
    """What an open job has for its result."""
    try:
        found = json.loads(job.output)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
