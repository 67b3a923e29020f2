"""What was done to a pipeline, by whom: requests, jobs, changes that were asked for over HTTP, and what waits for a decision."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from sqlalchemy import and_, or_, select
from sqlalchemy.orm import defer

from replicator_runtime.observed.requests import request_json
from replicator_runtime.observed.schema_changes import waiting_changes
from replicator_runtime.service.store.tables import AuditEntry, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import InstrumentedAttribute

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


class Place(NamedTuple):
    """A place in the order of the entries: before an entry, by its time and then by its id, since several have one time."""

    at: datetime
    entry_id: str = ""


END = Place(datetime(9000, 1, 1, tzinfo=UTC))
"""After all entries."""


def activity(context: ServiceContext, namespace: str, name: str, before: Place, limit: int) -> list[ActivityEntry]:
    """The newest entries before a place, the newest first, and one more than `limit` when there are more."""
    directory = context.observation.reader_of(namespace, name).directory
    found = [
        *_requests(directory, before, limit + 1),
        *_of_database(context, namespace, name, before, limit + 1),
        *_schema_changes(directory),
    ]
    found = [entry for entry in found if _place(entry) < before]
    return sorted(found, key=_place, reverse=True)[: limit + 1]


def _place(entry: ActivityEntry) -> Place:
    return Place(entry.at, entry.id)


def _requests(directory: ReplicatorDirectory, before: Place, limit: int) -> Iterator[ActivityEntry]:
    for entry in directory.requests().history(limit, before=_first_after(before)):
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
    context: ServiceContext, namespace: str, name: str, before: Place, limit: int
) -> Iterator[ActivityEntry]:
    path = f"/v1/contexts/{namespace}/pipelines/{name}"
    jobs = (
        select(Job)
        .options(defer(Job.output))
        .where(Job.namespace == namespace, Job.name == name, _is_before(Job.started, Job.job_id, before))
        .order_by(Job.job_id.desc())
    )
    changes = (
        select(AuditEntry)
        .where(AuditEntry.namespace == namespace, _is_before(AuditEntry.at, AuditEntry.entry_id, before))
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


def _is_before(
    at: InstrumentedAttribute[datetime], entry_id: InstrumentedAttribute[str], before: Place
) -> ColumnElement[bool]:
    return or_(at < before.at, and_(at == before.at, entry_id < before.entry_id))


def _first_after(place: Place) -> str | None:
    """The first id of requests that is not before that place; None where it is beyond those that ids can have."""
    from ulid import ULID

    if place.at.year >= END.at.year:
        return None
    millisecond = place.at.replace(microsecond=place.at.microsecond // 1000 * 1000)
    first, following = (
        str(ULID.from_datetime(moment))[:10] + "0" * 16
        for moment in (millisecond, millisecond + timedelta(milliseconds=1))
    )
    return max(first, min(place.entry_id, following)) if place.at == millisecond else following
