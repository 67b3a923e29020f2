"""What was done to a pipeline, by whom: requests, jobs, changes that were asked for over HTTP, and what waits for a decision."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from sqlalchemy import select
from sqlalchemy.orm import defer

from replicator_runtime.observed.requests import request_json
from replicator_runtime.observed.schema_changes import waiting_changes
from replicator_runtime.service.store.tables import AuditEntry, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.service.context import ServiceContext
    from replicator_state import ReplicatorDirectory


class ActivityEntry(BaseModel):
    """Something that happened."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, json_schema_serialization_defaults_required=True
    )

    id: str
    kind: str = Field(description="`request`, `job`, `change` (asked for over HTTP) or `schemaChange`.")
    at: datetime
    by: str = ""
    what: str = Field(description="The command, the operation, or the change of structure.")
    tables: list[str] = Field(default_factory=list)
    state: str = Field(default="", description="How it ended, or `waiting`; of a change the HTTP status.")
    text: str = ""


def activity(
    context: ServiceContext, namespace: str, name: str, before: datetime | None, limit: int
) -> list[ActivityEntry]:
    """The newest entries before a moment, the newest first, and one more than `limit` when there are more."""
    directory = context.observation.reader_of(namespace, name).directory
    until = before or datetime.now(UTC).replace(year=9000)
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    found = [
        *_requests(directory, until, limit + 1),
        *_of_database(context, namespace, name, until, limit + 1),
        *_schema_changes(directory),
    ]
    found = [entry for entry in found if entry.at < until]
    return sorted(found, key=lambda entry: (entry.at, entry.id), reverse=True)[: limit + 1]


def _requests(directory: ReplicatorDirectory, until: datetime, limit: int) -> Iterator[ActivityEntry]:
    for entry in directory.requests().history(limit, before=_ulid_of(until)):
        shown = request_json(entry)
        if entry.request is not None:
            yield ActivityEntry(
                id=entry.request_id,
                kind="request",
                at=entry.request.at,
                by=entry.request.by,
                what=entry.request.command,
                tables=list(entry.request.arguments.get("tables", ())),
                state=str(shown["state"]),
                text=str(shown["text"]),
            )


def _of_database(
    context: ServiceContext, namespace: str, name: str, until: datetime, limit: int
) -> Iterator[ActivityEntry]:
    path = f"/v1/contexts/{namespace}/pipelines/{name}"
    jobs = (
        select(Job)
        .options(defer(Job.output))
        .where(Job.namespace == namespace, Job.name == name, Job.started < until)
        .order_by(Job.job_id.desc())
    )
    changes = (
        select(AuditEntry)
        .where(AuditEntry.namespace == namespace, AuditEntry.at < until)
        .where((AuditEntry.path == path) | AuditEntry.path.startswith(f"{path}/", autoescape=True))
        .order_by(AuditEntry.entry_id.desc())
    )
    with context.database.session() as session:
        found_jobs, found_changes = (
            list(session.scalars(jobs.limit(limit))),
            list(session.scalars(changes.limit(limit))),
        )
    for job in found_jobs:
        what = " ".join(json.loads(job.command))
        yield ActivityEntry(id=job.job_id, kind="job", at=job.started, by=job.by, what=what, state=job.state)
    for one in found_changes:
        yield ActivityEntry(
            id=one.entry_id,
            kind="change",
            at=one.at,
            by=one.by,
            what=one.operation,
            state=str(one.status),
            text=one.code,
        )


def _schema_changes(directory: ReplicatorDirectory) -> Iterator[ActivityEntry]:
    for change in waiting_changes(directory):
        yield ActivityEntry(
            id=change["id"],
            kind="schemaChange",
            at=datetime.fromisoformat(change["since"]),
            what=change["text"],
            tables=[change["name"]],
            state="waiting",
        )


def _ulid_of(moment: datetime) -> str | None:
    """The first id of that moment; None where it is beyond those that ids can have."""
    from ulid import ULID

    if moment.year >= 9000:
        return None
    return str(ULID.from_datetime(moment))[:10] + "0" * 16
