"""Tokens, the page's session, and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from replicator_runtime.service.access.audit import list_entries
from replicator_runtime.service.access.authentication import LOCAL, cookie_name, refuse
from replicator_runtime.service.access.requests.origins import check_same_site, header_values
from replicator_runtime.service.access.requirement import principal_of, requires
from replicator_runtime.service.access.roles import EVERY_NAMESPACE, Principal, Role
from replicator_runtime.service.access.schemas import (
    AuditView,
    CreatedToken,
    SessionRequest,
    SessionView,
    TokenRequest,
    TokenView,
)
from replicator_runtime.service.access.sessions import create_session, csrf_value, end_session
from replicator_runtime.service.access.tokens import (
    create_token,
    find_token,
    list_tokens,
    principal_of_token,
    revoke_token,
)
from replicator_runtime.service.context import Context
from replicator_runtime.service.paging import After, Limit, page
from replicator_runtime.service.problems import NOT_FOUND, ProblemError
from replicator_runtime.service.settings import Auth
from replicator_state import check_identifier

router = APIRouter(prefix="/v1", tags=["access"])
Admin = Annotated[Principal, requires(Role.ADMIN)]


@router.get("/tokens", operation_id="listTokens", summary="All tokens, without their texts")
def get_tokens(
    context: Context, principal: Admin, request: Request, response: Response, limit: Limit = 100, after: After = None
) -> Sequence[TokenView]:
    """The oldest first; those that have expired or were revoked, too."""
    found = [token for token in list_tokens(context.database) if after is None or token.token_id > after]
    shown = page(request, response, found, lambda token: token.token_id, limit)
    return [TokenView.of(token) for token in shown]


@router.post("/tokens", operation_id="createToken", summary="Create a token", status_code=201)
def post_token(context: Context, principal: Admin, body: TokenRequest) -> CreatedToken:
    """The response is the only place where its text is ever shown."""
    if body.namespace != EVERY_NAMESPACE:
        check_identifier(body.namespace, "namespace")
    valid_for = None if body.valid_days is None else timedelta(days=body.valid_days)
    created = create_token(context.database, body.role, namespace=body.namespace, label=body.label, valid_for=valid_for)
    return CreatedToken(id=created.token_id, token=created.text)


@router.delete("/tokens/{token_id}", operation_id="revokeToken", summary="Revoke a token")
def delete_token(context: Context, principal: Admin, token_id: str) -> TokenView:
    """It is refused from now on, and sessions that were begun with it end. Repeating it changes nothing."""
    found = revoke_token(context.database, token_id)
    if found is None:
        raise ProblemError(404, NOT_FOUND, "there is no such token", hint="list them: `replicator token list`")
    return TokenView.of(found)


@router.get("/session", operation_id="getSession", summary="Who one is")
def get_session(request: Request) -> SessionView:
    """Of the token, the cookie, or, in a service without tokens, of everyone."""
    return _view(principal_of(request), getattr(request.state, "session", None))


@router.post("/session", operation_id="createSession", summary="Exchange a token for a cookie", status_code=201)
def post_session(context: Context, request: Request, response: Response, body: SessionRequest) -> SessionView:
    """For the page: the cookie is read by no script, and sent by no other site's page."""
    if context.settings.auth is Auth.NONE:
        return _view(LOCAL, None)
    check_same_site(request.scope)
    token = find_token(context.database, body.token)
    if token is None:
        refuse(request.scope, request.app.state.failures)
    created = create_session(context.database, token)
    response.set_cookie(
        cookie_name(request.scope),
        created.text,
        expires=created.expires,
        path="/",
        httponly=True,
        samesite="strict",
        secure=_is_secure(request),
    )
    return _view(principal_of_token(token), created.text)


@router.delete("/session", operation_id="deleteSession", summary="End the session", status_code=204)
def delete_session(context: Context, request: Request, response: Response) -> None:
    """The cookie is worth nothing from now on."""
    text = getattr(request.state, "session", None)
    if text:
        end_session(context.database, text)
    response.delete_cookie(cookie_name(request.scope), path="/", httponly=True, samesite="strict")


@router.get("/audit", operation_id="listAuditEntries", summary="Every change that was asked for, the newest first")
def get_audit(
    context: Context,
    principal: Admin,
    request: Request,
    response: Response,
    namespace: Annotated[str | None, Query(max_length=255, description="Of this one only.")] = None,
    limit: Limit = 100,
    after: After = None,
) -> Sequence[AuditView]:
    """Those that were refused, too. Entries are kept for 90 days."""
    found = list_entries(context.database, limit=limit + 1, after=after, namespace=namespace)
    shown = page(request, response, found, lambda entry: entry.entry_id, limit)
    return [AuditView.of(entry) for entry in shown]


def _view(principal: Principal, session: str | None) -> SessionView:
    return SessionView(
        name=principal.name,
        role=principal.role,
        namespace=principal.namespace,
        csrf=csrf_value(session) if session else None,
    )


def _is_secure(request: Request) -> bool:
    """Whether the browser speaks TLS, perhaps with a proxy: it says so itself."""
    origins = header_values(request.scope, b"origin")
    return request.url.scheme == "https" or any(origin.startswith("https://") for origin in origins)
