"""What changes a pipeline: each is one transaction, after which the supervisor is woken."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import IntegrityError

from replicator_runtime.service.pipelines.configs import checked, config_of_draft
from replicator_runtime.service.pipelines.items import find
from replicator_runtime.service.problems import FieldProblem, ProblemError
from replicator_runtime.service.store.tables import Instance, Pipeline
from replicator_runtime.service.supervision.states import DELETE, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.service.context import ServiceContext
    from replicator_runtime.service.pipelines.schemas import NewPipeline

PIPELINE_EXISTS, PIPELINE_IS_DELETED, PIPELINE_WITHOUT_NAME = "RPL-1521", "RPL-1525", "RPL-1526"
PIPELINE_CHANGED = "RPL-1527"
_HANGS_AFTER = timedelta(seconds=30)


def create(context: ServiceContext, namespace: str, body: NewPipeline) -> str:
    """Store a new pipeline; its name.

    Raises:
        ProblemError: 409 RPL-1521 when there is one, 422 when the config is not valid, 404 without the draft.
    """
    config = body.config if body.draft is None else config_of_draft(context, namespace, body.draft)
    assert config is not None
    name = body.name or config.get("name") or body.draft
    if not isinstance(name, str):
        raise ProblemError(
            422,
            PIPELINE_WITHOUT_NAME,
            "the pipeline has no name",
            hint="give `name`, beside `config` or in it",
            errors=[FieldProblem(pointer="/body/name", message="is missing")],
        )
    text = checked(context, namespace, name, config)
    now = datetime.now(UTC)
    wanted = Wanted.STARTED if body.start else Wanted.STOPPED
    row = Pipeline(namespace=namespace, name=name, created=now, updated=now, config=text, wanted=wanted)
    try:
        with context.database.session() as session:
            session.add(row)
    except IntegrityError:
        raise ProblemError(
            409,
            PIPELINE_EXISTS,
            f'there is a pipeline "{name}" in the namespace "{namespace}" already',
            hint="edit it (PUT pipelines/NAME), or choose another name",
        ) from None
    context.supervisor.wake()
    return name


def edit(context: ServiceContext, namespace: str, name: str, config: Mapping[str, Any], if_match: str | None) -> None:
    """Give a pipeline another config; a run that goes on has it after its next start.

    Raises:
        ProblemError: 412 RPL-1505 when it has another version than `if_match` names, 404, 409 RPL-1525, 422 as `create`.
    """
    with context.database.session() as session:
        row, _ = find(session, namespace, name)
    _check_version(row, if_match)
    text = checked(context, namespace, name, config)
    with context.database.change() as session:
        row, _ = find(session, namespace, name, for_change=True)
        _check_version(row, if_match)
        _check_stays(row)
        if row.config != text:
            row.config, row.version, row.updated = text, row.version + 1, datetime.now(UTC)


def start(context: ServiceContext, namespace: str, name: str) -> None:
    """Have it run; one that waits after a failed start, or has failed, is started at once.

    Raises:
        ProblemError: 404 RPL-1520, 409 RPL-1525.
    """
    _want(context, namespace, name, Wanted.STARTED, lambda newest: newest.ended is not None or bool(newest.error))


def stop(context: ServiceContext, namespace: str, name: str) -> None:
    """Have it end in order.

    Raises:
        ProblemError: As `start`.
    """
    _want(context, namespace, name, Wanted.STOPPED, lambda newest: True)


def restart(context: ServiceContext, namespace: str, name: str) -> None:
    """Have it end in order, if it runs, and begin again.

    Raises:
        ProblemError: As `start`.
    """
    _want(context, namespace, name, Wanted.STARTED, lambda newest: True)


def _want(
    context: ServiceContext, namespace: str, name: str, wanted: Wanted, is_over: Callable[[Instance], bool]
) -> None:
    """Note what is wanted, and that its newest process is to end, or counts no more, where `is_over` says so."""
    with context.database.change() as session:
        row, newest = find(session, namespace, name, for_change=True)
        _check_stays(row)
        row.wanted = wanted
        if newest is not None and is_over(newest):
            _dismiss(newest)
    context.supervisor.wake()


def delete(
    context: ServiceContext, namespace: str, name: str, if_match: str | None, *, target_tables: bool, keep_source: bool
) -> None:
    """Have it end, and removed by `replicator delete`; given again, with other options or after a while, that is begun again.

    Raises:
        ProblemError: 404 RPL-1520, 412 RPL-1505.
    """
    chosen = {"--target-tables": target_tables, "--keep-source": keep_source}
    with context.database.change() as session:
        row, newest = find(session, namespace, name, for_change=True)
        _check_version(row, if_match)
        before, row.wanted = row.deletion, Wanted.DELETING
        row.deletion = json.dumps([option for option, is_chosen in chosen.items() if is_chosen])
        if newest is not None and (newest.ended is not None or _is_other(newest, before, row.deletion)):
            _dismiss(newest)
    context.supervisor.wake()


def etag(version: int, created: datetime) -> str:
    """The ETag of a version of a pipeline's config, also after the pipeline was deleted and created again."""
    return f'"{version}-{int(created.timestamp() * 1_000_000):x}"'


def _check_version(row: Pipeline, if_match: str | None) -> None:
    if if_match is None or if_match.strip() in {"*", etag(row.version, row.created)}:
        return
    raise ProblemError(
        412,
        PIPELINE_CHANGED,
        f'the pipeline "{row.name}" has changed meanwhile',
        hint="read it again, and edit what is there now",
    )


def _check_stays(row: Pipeline) -> None:
    if row.wanted == Wanted.DELETING:
        raise ProblemError(
            409,
            PIPELINE_IS_DELETED,
            f'the pipeline "{row.name}" is being deleted',
            hint="wait until it is gone; where deleting has failed or hangs, do what its error says and delete it again",
        )


def _is_other(newest: Instance, before: str, deletion: str) -> bool:
    """Whether a deletion that goes on does not do what is asked for now, or seems to hang; it may be ended at any point."""
    return newest.command == DELETE and (before != deletion or datetime.now(UTC) - newest.started > _HANGS_AFTER)


def _dismiss(newest: Instance) -> None:
    newest.dismissed = newest.dismissed or datetime.now(UTC)
