"""The OpenAPI document: FastAPI's, with who may call each operation and the problems that each may answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response

from replicator_runtime.service.access.authentication import COOKIE
from replicator_runtime.service.access.operations import Operation, operations_of
from replicator_runtime.service.access.requests.repeating import SECRET_ANSWERS
from replicator_runtime.service.access.requirement import requires
from replicator_runtime.service.access.roles import Principal, Role
from replicator_runtime.service.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

VERSION = "1"
_UNSAFE = frozenset({"post", "put", "delete", "patch"})
_REFUSALS = {
    "400": "The request cannot be read.",
    "401": "It needs a valid token.",
    "403": "The token's role, or its namespace, is not enough.",
    "404": "There is nothing of this name.",
    "408": "The body came too slowly.",
    "409": "What is there does not allow it now.",
    "413": "The body is larger than 1 MiB.",
    "415": "The body is not sent as JSON.",
    "422": "A part of the request is not valid; `errors` names each.",
    "429": "Too many requests; `Retry-After` says when the next one is taken.",
    "503": "The service, its database, a source or a target is not available.",
}
_REPLACED = ("HTTPValidationError", "ValidationError")
router = APIRouter(tags=["service"])


@router.get(
    "/openapi.json",
    operation_id="getOpenApi",
    summary="This document",
    response_class=Response,
    responses={200: {"description": "An OpenAPI 3.1 document.", "content": {"application/json": {"schema": {}}}}},
)
def get_open_api(request: Request, principal: Annotated[Principal, requires(Role.VIEWER, anywhere=True)]) -> Response:
    """The same as `docs/openapi.json`."""
    return Response(text_of(request.app), media_type="application/json")


def install(application: FastAPI) -> None:
    """Have `application.openapi()` give this document."""

    def document() -> dict[str, Any]:
        if application.openapi_schema is None:
            application.openapi_schema = _document(application)
        return application.openapi_schema

    application.openapi = document  # type: ignore[method-assign]  # FastAPI's own way of changing the document


def text_of(application: FastAPI) -> str:
    """The document as text: the same for the same operations, with its keys in order."""
    return json.dumps(application.openapi(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _document(application: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=application.title,
        version=VERSION,
        description="Every error is an `application/problem+json` with a code of docs/errors.md.",
        routes=application.routes,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _REPLACED:
        schemas.pop(name, None)
    made = Problem.model_json_schema(by_alias=True, mode="serialization", ref_template="#/components/schemas/{model}")
    schemas.update(made.pop("$defs", {}))
    schemas["Problem"] = made
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    components["responses"] = {"Problem": {"description": "Any other problem.", "content": content}}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "Of `replicator token create`."},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": "The page's; needs `X-CSRF-Token`.",
        },
    }
    components["parameters"] = {
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": "The same request with the same key is carried out once, and answered alike for a day.",
            "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
        }
    }
    found = {(path.path, method.lower()): path for path in operations_of(application) for method in path.methods}
    for path, item in document["paths"].items():
        for method, described in item.items():
            _describe(described, method, path, found[path, method], content)
    return document


def _describe(described: dict[str, Any], method: str, path: str, operation: Operation, content: dict[str, Any]) -> None:
    responses = described["responses"]
    if "HTTPValidationError" in json.dumps(responses.get("422", {})):
        del responses["422"]
    statuses = ["400", "429"]
    if operation.role is not None:
        statuses += ["401", "403"]
        described["security"] = [{"token": []}, {"session": []}]
        described["x-role"] = operation.role.value
        described["x-anywhere"] = operation.anywhere
    else:
        described["security"] = []
    if described.get("parameters") or "requestBody" in described:
        statuses.append("422")
    if "requestBody" in described:
        statuses += ["408", "413", "415"]
    if "{" in path:
        statuses.append("404")
    if method in _UNSAFE:
        statuses += ["409", "503"]
        if operation.operation_id not in SECRET_ANSWERS:
            described.setdefault("parameters", []).append({"$ref": "#/components/parameters/IdempotencyKey"})
    for status in statuses:
        responses.setdefault(status, {"description": _REFUSALS[status], "content": content})
    for status, response in responses.items():
        if status[0] in "45":
            response["content"] = content  # whatever FastAPI makes of a model: a problem has one media type
    responses.setdefault("default", {"$ref": "#/components/responses/Problem"})
