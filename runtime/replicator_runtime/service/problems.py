"""The one shape of an error over HTTP: `application/problem+json` (RFC 9457) with this project's codes.

FastAPI's own answer to a wrong body repeats the values it was given, secrets among them, so it is replaced here.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import exc
from starlette.exceptions import HTTPException

from replicator_runtime.observability.redaction import redact
from replicator_sdk.errors import BugError, NeedsUserError, ReplicatorError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEDIA_TYPE = "application/problem+json"
ERROR_PAGE = "docs/errors.md"
NOT_VALID = "RPL-1500"
NOT_FOUND = "RPL-1501"
NO_DATABASE = "RPL-1542"
UNEXPECTED = "RPL-9000"
_OF_CLASS: Mapping[str, int] = {
    "config": 422,
    "needs_user": 409,
    "table_history_lost": 409,
    "schema_drift": 409,
    "source_history_lost": 409,
    "fenced": 409,
    "data": 422,
    "retryable": 503,
    "snapshot_needed": 503,
    "rows_rewritten": 503,
}
"""The HTTP status of each class of error; any other is a fault of the program."""
log = structlog.get_logger()


class FieldProblem(BaseModel):
    """What is wrong with one part of a body, a query or a path."""

    pointer: str = Field(description="JSON Pointer to it, below `/body`, `/query`, `/path` or `/header`.")
    message: str = Field(description="What is wrong; never the value itself.")


class Problem(BaseModel):
    """An error."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    type: str = Field(description="The page of the error's code.")
    title: str = Field(description="The kind of error, in a few words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened.")
    code: str = Field(description="The error's code, RPL-NNNN.")
    hint: str = Field(default="", description="What to do next.")
    table: str | None = Field(default=None, description="The table it is about.")
    position: str | None = Field(default=None, description="The position in the source's log.")
    error_class: str = Field(
        default="needs_user", serialization_alias="class", description="The error's class (docs/errors.md)."
    )
    exit_code: int = Field(
        default=3,
        serialization_alias="exitCode",
        description="With which the command line ends after it (docs/cli.md).",
    )
    errors: list[FieldProblem] = Field(default_factory=list, description="Each part that is wrong.")


class ProblemError(Exception):
    """Ends a request with a problem.

    Args:
        status: The HTTP status.
        code: RPL-NNNN.
        detail: What happened, without secrets and values of rows.
        hint: What to do next.
        errors: Each part of the request that is wrong.
        headers: Of the response.
        table: The table it is about.
        position: The position in the source's log.
        error_class: Of `docs/errors.md`; what fits the status when None.
        exit_code: With which the command line ends after it; what fits the status when None.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        hint: str = "",
        errors: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
        table: str | None = None,
        position: str | None = None,
        error_class: str | None = None,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.hint = hint
        self.errors = list(errors)
        self.headers = headers
        self.table = table
        self.position = position
        kind = _KINDS.get(status, NeedsUserError)
        self.error_class = error_class or kind.error_class
        self.exit_code = kind.exit_code if exit_code is None else exit_code

    def problem(self) -> Problem:
        """Its JSON form."""
        return Problem(
            type=f"{ERROR_PAGE}#{self.code.lower()}",
            title=_TITLES.get(self.status, "error"),
            status=self.status,
            detail=redact(self.detail),
            code=self.code,
            hint=redact(self.hint),
            table=self.table,
            position=self.position,
            error_class=self.error_class,
            exit_code=self.exit_code,
            errors=self.errors,
        )


_DATABASE_AWAY = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)
_KINDS: Mapping[int, type[ReplicatorError]] = {
    429: RetryableError,
    500: BugError,
    502: RetryableError,
    503: RetryableError,
    504: RetryableError,
}
"""What class of error a status means, where the error does not say; any other needs the user."""
_TITLES: Mapping[int, str] = {
    400: "bad request",
    401: "not authenticated",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    408: "too slow",
    409: "conflict",
    412: "changed elsewhere",
    413: "too large",
    415: "wrong media type",
    421: "wrong host",
    422: "not valid",
    428: "precondition required",
    429: "too many requests",
    500: "a fault of the service",
    502: "source or target failed",
    503: "unavailable",
    504: "out of time",
}


def install(application: FastAPI) -> None:
    """Have every error of `application` answered by a problem."""
    application.add_exception_handler(ProblemError, _of_problem)
    application.add_exception_handler(ReplicatorError, _of_replicator)
    application.add_exception_handler(RequestValidationError, _of_validation)
    application.add_exception_handler(HTTPException, _of_http)
    for kind in _DATABASE_AWAY:
        application.add_exception_handler(kind, _of_database)
    application.add_exception_handler(Exception, unexpected)


def respond(error: ProblemError, request: Request | None = None) -> JSONResponse:
    """The response of an error; `request.state.problem` has its code then, for the audit log."""
    if request is not None:
        request.state.problem = error.code
    content = error.problem().model_dump(mode="json", by_alias=True)
    return JSONResponse(content, error.status, error.headers, media_type=MEDIA_TYPE)


def _of_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return respond(error, request)


def _of_replicator(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ReplicatorError)
    status = _OF_CLASS.get(error.error_class, 500)
    return respond(
        ProblemError(
            status,
            error.code,
            error.message,
            hint=error.hint,
            table=error.table,
            position=error.position,
            error_class=error.error_class,
            exit_code=error.exit_code,
        ),
        request,
    )


def _of_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [FieldProblem(pointer=_pointer(e["loc"]), message=_message(e)) for e in error.errors()]
    return respond(
        ProblemError(422, NOT_VALID, "the request is not valid", hint="correct what `errors` names", errors=errors),
        request,
    )


def _message(error: Mapping[str, Any]) -> str:
    """What pydantic says, unless it repeats the value."""
    return str(error["msg"]) if error["type"] != "value_error" else "this value is not valid"


def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        hint = "docs/openapi.json lists the operations; GET /openapi.json, too"
        return respond(ProblemError(404, NOT_FOUND, "there is nothing at this path", hint=hint), request)
    return respond(ProblemError(error.status_code, NOT_VALID, str(error.detail), headers=error.headers), request)


def _of_database(request: Request, error: Exception) -> JSONResponse:
    """The database does not answer, or another transaction has it for too long: the same request may succeed later."""
    log.warning("service.database_away", path=request.url.path, kind=type(error).__name__)
    return respond(
        ProblemError(
            503,
            NO_DATABASE,
            "the service's database does not answer now",
            hint="try again; look whether the database that --store names runs",
            headers={"Retry-After": "5"},
        ),
        request,
    )


def unexpected(request: Request, error: Exception) -> JSONResponse:
    """The response where the program is at fault; the log has the kind and place of the error, but no value."""
    if isinstance(error, _DATABASE_AWAY):
        return _of_database(request, error)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("service.unexpected", path=request.url.path, kind=type(error).__name__, at=" < ".join(places[:-6:-1]))
    return respond(
        ProblemError(500, UNEXPECTED, f"unexpected {type(error).__name__}", hint="report it with the service's log"),
        request,
    )


def _pointer(location: Sequence[Any]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)
