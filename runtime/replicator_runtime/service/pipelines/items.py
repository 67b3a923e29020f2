"""What is shown of a pipeline: its row, its newest process, and what its run has written last."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import defer

from replicator_runtime.service.observation.fleet import LastError, Reason
from replicator_runtime.service.pipelines.schemas import PipelineAnswer, PipelineItem
from replicator_runtime.service.problems import ProblemError
from replicator_runtime.service.store.tables import Instance, Pipeline
from replicator_runtime.service.supervision.records import newest_from, with_newest
from replicator_runtime.service.supervision.run_errors import RUN_NOT_REPORTED
from replicator_runtime.service.supervision.states import (
    RUN_ON_FORMER_HOST,
    State,
    Wanted,
    decide,
    error_of,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from sqlalchemy.orm import Session

    from replicator_runtime.service.context import ServiceContext
    from replicator_runtime.service.observation.fleet import Summary
    from replicator_runtime.service.supervision.states import Newest

NO_PIPELINE = "RPL-1520"
_OF_A_PROCESS = frozenset({"failed", "processEnded", "silent"})
"""Reasons by what a run wrote last; that its process has ended is known here."""
_MANY = 2
_BROUGHT_ABOUT = frozenset({State.WAITING, State.STOPPING, State.DELETING})
"""States that the supervisor ends."""


def list_texts(
    context: ServiceContext, namespace: str, after: str | None, limit: int | None = None
) -> list[tuple[str, str]]:
    """Name and JSON of the pipelines of a namespace after a name, in the order of their names.

    An item is made only when something of it has changed since the last time.
    """
    query = with_newest(Pipeline).options(defer(Pipeline.config))
    query = query.where(Pipeline.namespace == namespace, Pipeline.name > (after or ""))
    with context.database.session() as session:
        found = session.execute(query.order_by(Pipeline.name).limit(limit)).all()
    if after is None and limit is None:
        context.observation.keep(((namespace, row.name) for row, _ in found), namespace)
    summaries = context.observation.look_at(row for row, _ in found)
    return [(row.name, _text(context, row, newest, of)) for (row, newest), of in zip(found, summaries, strict=True)]


def _text(context: ServiceContext, row: Pipeline, instance: Instance | None, summary: Summary) -> str:
    now = datetime.now(UTC)
    wanted, newest = Wanted(row.wanted), None if instance is None else newest_from(instance)
    shown = (state_of(wanted, newest, now), decide(wanted, newest, now).again_at)
    version = (row.version, row.created, row.updated, row.wanted, newest, shown, context.supervisor.lasting_refusal)
    return context.observation.text(
        row, summary, version, lambda: item(context, row, instance, summary).model_dump_json(by_alias=True)
    )


def stream_items(context: ServiceContext, namespace: str) -> dict[str, str]:
    """The list's items by name, as JSON: what an event stream sends."""
    return dict(list_texts(context, namespace, None))


def read_item(context: ServiceContext, namespace: str, name: str) -> PipelineItem:
    """One of them.

    Raises:
        ProblemError: 404 RPL-1520 when there is none.
    """
    with context.database.session() as session:
        row, newest = find(session, namespace, name)
    return item(context, row, newest)


def read_answer(context: ServiceContext, namespace: str, name: str) -> PipelineAnswer:
    """The same, with its config."""
    with context.database.session() as session:
        row, newest = find(session, namespace, name)
    shown = item(context, row, newest)
    return PipelineAnswer(**_fields(shown), config=json.loads(row.config))


def find(session: Session, namespace: str, name: str, *, for_change: bool = False) -> tuple[Pipeline, Instance | None]:
    """A pipeline and its newest process; in a transaction that changes it, it stays as it is until that has ended.

    Raises:
        ProblemError: 404 RPL-1520 when there is none.
    """
    row = session.get(Pipeline, (namespace, name), with_for_update=for_change)
    if row is None:
        raise no_pipeline(namespace, name)
    newest = session.scalar(
        select(Instance)
        .where(Instance.namespace == namespace, Instance.name == name)
        .order_by(Instance.instance_id.desc())
        .limit(1)
    )
    return row, newest


def no_pipeline(namespace: str, name: str) -> ProblemError:
    """The error that there is none of this name."""
    return ProblemError(
        404,
        NO_PIPELINE,
        f'there is no pipeline "{name}" in the namespace "{namespace}"',
        hint="list what there is: GET pipelines",
    )


def item(
    context: ServiceContext, row: Pipeline, instance: Instance | None, summary: Summary | None = None
) -> PipelineItem:
    """What is shown of a pipeline now; `summary` is what is known of its state, where that was looked at already."""
    newest, wanted, now = None if instance is None else newest_from(instance), Wanted(row.wanted), datetime.now(UTC)
    summary = summary or context.observation.summary(row)
    shown = PipelineItem(
        **_fields(summary),
        namespace=row.namespace,
        name=row.name,
        created=row.created,
        updated=row.updated,
        wanted=wanted,
        state=_state(wanted, newest, now, summary),
        config_version=row.version,
        running_version=newest.config_version if newest is not None and newest.ended is None else None,
        started=newest.started if newest else None,
        ended=newest.ended if newest else None,
        exit_code=newest.exit_code if newest else None,
        restarts=newest.restarts if newest else 0,
        next_start=decide(wanted, newest, now).again_at,
    )
    if shown.state not in {State.RUNNING, State.STARTING, State.STOPPING}:
        shown.needs_you = [one for one in shown.needs_you if one.reason not in _OF_A_PROCESS]
        _add_error(shown, error_of(newest.error) if newest else {})
    if shown.state in _BROUGHT_ABOUT and (refusal := context.supervisor.lasting_refusal):
        text = f"this service neither starts nor stops pipelines now: {refusal}"
        shown.needs_you.insert(0, Reason(reason="waits", text=text))
    return shown


def _state(wanted: Wanted, newest: Newest | None, now: datetime, summary: Summary) -> State:
    """Its process is starting until its run has written a status."""
    state = state_of(wanted, newest, now)
    if state is not State.RUNNING or newest is None:
        return state
    has_written = summary.status_at is not None and datetime.fromisoformat(summary.status_at) >= newest.started
    return State.RUNNING if has_written else State.STARTING


def _add_error(shown: PipelineItem, error: Mapping[str, str]) -> None:
    """Show what its process ended with, which is newer than what its run wrote last."""
    waits = shown.state is State.WAITING and error.get("code") == RUN_ON_FORMER_HOST
    if shown.state not in {State.FAILED, State.BACKOFF, State.DELETING} and not waits:
        return
    if error and (shown.last_error is None or error.get("code") != RUN_NOT_REPORTED):
        shown.last_error = LastError(**{key: error.get(key, "") for key in LastError.model_fields})
    message, code = error.get("message", "its process has failed"), error.get("code", "")
    if waits:
        shown.needs_you.insert(0, Reason(reason="waits", text=message, code=code))
    elif shown.state is State.FAILED:
        shown.needs_you.insert(0, Reason(reason="failed", text=message, code=code))
    elif shown.restarts >= _MANY:
        shown.needs_you.insert(0, Reason(reason="failsAgain", text=message, count=shown.restarts + 1, code=code))


def _fields(shown: BaseModel) -> dict[str, Any]:
    return {name: getattr(shown, name) for name in type(shown).model_fields}
