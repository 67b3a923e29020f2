"""Drafts: list, read, write, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response

from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.catalogue.secret_settings import refuse_literal_secrets
from replicator_runtime.service.context import Context
from replicator_runtime.service.drafts.documents import config_text
from replicator_runtime.service.drafts.draft_texts import draft_text
from replicator_runtime.service.drafts.schemas import NAME, DraftAnswer, DraftBody
from replicator_runtime.service.paging import After, Limit, page
from replicator_runtime.service.problems import MEDIA_TYPE, Problem
from replicator_runtime.service.store.conditions import Condition
from replicator_runtime.service.store.documents import StoredDrafts, etag

router = APIRouter(prefix="/v1/contexts/{namespace}/drafts", tags=["drafts"])
Namespace = Annotated[str, Path(pattern=NAME, description="Keeps pipelines of one name apart.")]
DraftName = Annotated[str, Path(pattern=NAME, description="The draft's name.")]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="Only if the draft has this ETag still.")]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="`*`: only if there is no draft of this name.")
]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of the statuses that a problem may have."""
    return {status: {"model": Problem, "content": {MEDIA_TYPE: {}}} for status in statuses}


@router.get("", operation_id="listDrafts", response_model=list[DraftAnswer], responses=problems(401, 403, 422))
def list_all(
    namespace: Namespace,
    context: Context,
    principal: Annotated[Principal, requires(Role.VIEWER)],
    request: Request,
    response: Response,
    limit: Limit = 1000,
    after: After = None,
) -> Response:
    """List the drafts of a namespace, by name."""
    found = context.draft_texts.after(namespace, after, limit + 1)
    shown = page(request, response, found, lambda draft: draft.name, limit)
    return _json(b"[" + b",".join([draft.text for draft in shown]) + b"]", dict(response.headers))


@router.get("/{name}", operation_id="getDraft", response_model=DraftAnswer, responses=problems(401, 403, 404, 422))
def read(
    namespace: Namespace, name: DraftName, context: Context, principal: Annotated[Principal, requires(Role.VIEWER)]
) -> Response:
    """Read a draft; the header `ETag` names its version."""
    draft = StoredDrafts(context.database).find(namespace, name)
    return _json(draft_text(draft), {"ETag": etag(draft)})


@router.put(
    "/{name}",
    operation_id="putDraft",
    response_model=DraftAnswer,
    responses={201: {"model": DraftAnswer, "description": "It is new."}, **problems(401, 403, 412, 413, 422)},
)
def write(
    namespace: Namespace,
    name: DraftName,
    body: DraftBody,
    context: Context,
    principal: Annotated[Principal, requires(Role.OPERATOR)],
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Create a draft, or overwrite it. A config that is not valid yet is stored, too; one with a secret in it is refused."""
    text = config_text(body.config)
    refuse_literal_secrets(context, body.config)
    condition = Condition(if_match, if_none_match)
    values = {"label": body.label, "config": text}
    draft, is_new = StoredDrafts(context.database).save(namespace, name, values, condition)
    return _json(draft_text(draft), {"ETag": etag(draft)}, 201 if is_new else 200)


@router.delete("/{name}", operation_id="deleteDraft", status_code=204, responses=problems(401, 403, 404, 412, 422))
def remove(
    namespace: Namespace,
    name: DraftName,
    context: Context,
    principal: Annotated[Principal, requires(Role.OPERATOR)],
    if_match: IfMatch = None,
) -> None:
    """Delete a draft."""
    StoredDrafts(context.database).delete(namespace, name, Condition(if_match))


def _json(text: bytes, headers: dict[str, str], status: int = 200) -> Response:
    return Response(text, status, headers, media_type="application/json")
