"""Answers of BigQuery and Cloud Storage as the SDK's errors: the class is the recovery, the hint the next step.

Google's own texts may quote values of rows, so no message repeats them; the reason word and the job's name are enough
to find them where access is controlled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final

from replicator_sdk.errors import DataError, NeedsUserError, ReplicatorError, RetryableError

# Reasons of temporary faults. `invalidQuery` is not among them, but some of its messages are.
_BUSY: Final = frozenset(
    {
        "backendError",
        "internalError",
        "jobBackendError",
        "jobInternalError",
        "jobRateLimitExceeded",
        "quotaExceeded",
        "rateLimitExceeded",
        "tableUnavailable",
        "timeout",
    }
)
_CONFLICTS: Final = (
    "concurrent update",
    "could not serialize access",
    "transaction is aborted",
    "transaction conflict",
)
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_PASSING: Final = frozenset({408, 499})  # request timeout; a connection that was cancelled
_STREAMING_BUFFER: Final = "streaming buffer"
# BigQuery gives the same reason for a table that does not exist.
_ELSEWHERE: Final = re.compile(r"different (locations|regions)|dataset \S+ was not found in location", re.IGNORECASE)


def is_transient(err: BaseException) -> bool:
    """Whether a request is worth repeating: too many requests, faults of the service, a broken connection."""
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError, TransportError

    if _UNTRUSTED in str(err):
        return False
    if isinstance(err, exceptions.GoogleAPICallError):
        busy = isinstance(err, exceptions.TooManyRequests | exceptions.ServerError) or _reason(err) in _BUSY
        return busy or err.code in _PASSING
    if isinstance(err, GoogleAuthError) and not isinstance(err, TransportError):
        return bool(err.retryable)  # the server that issues tokens may be busy, too
    return isinstance(err, TransportError | OSError | HTTPException)  # those of requests are OSErrors


def failed_connection(err: BaseException, what: str, table: str) -> ReplicatorError | None:
    """The error for a connection that an operator must fix; None for any other failure."""
    if _UNTRUSTED not in str(err):
        return None
    return NeedsUserError(
        f"{what}: the certificate of Google, or of the proxy before it, is not trusted",
        code="RPL-6536",
        table=table,
        hint="name the file of the authority that signed it in REQUESTS_CA_BUNDLE and GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    )


def missing_library(name: str) -> NeedsUserError:
    """One of Google's libraries is not installed."""
    return NeedsUserError(f"{name} is not installed", code="RPL-6510", hint="pip install 'replicator[bigquery]'")


def busy(what: str, table: str, seconds: float) -> RetryableError:
    """A request was repeated long enough."""
    return RetryableError(
        f"{what} did not succeed within {seconds:g} seconds",
        code="RPL-6511",
        table=table,
        hint="retried by itself; see Google Cloud's status, and the project's quotas",
    )


def silent(what: str, table: str, service: str, setting: str) -> RetryableError:
    """A service that has given no answer since the run began."""
    return RetryableError(
        f"{what}: {service} has not answered once since the run began",
        code="RPL-6538",
        table=table,
        hint=f"check the network and `{setting}`: with http:// before it no TLS is used, else it is; retried by itself",
    )


def too_large(table: str, position: str = "") -> DataError:
    """A row cannot be streamed at all."""
    return DataError(
        "a row is larger than the 10 MB that the Storage Write API and insertAll take",
        code="RPL-6604",
        table=table,
        position=position,
        hint="leave its largest column out by `columns`, or use mode batch, which takes rows of up to 100 MB",
    )


def failed_request(err: Exception, what: str, table: str, *, place: str = "") -> ReplicatorError:
    """A request that was refused.

    Args:
        err: As Google's client raised it.
        what: What was requested; the message begins with it.
        table: The table concerned.
        place: The project, dataset, table or bucket concerned.
    """
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    if (untrusted := failed_connection(err, what, table)) is not None:
        return untrusted
    reason = _reason(err) or type(err).__name__
    where = f" ({place})" if place else ""
    if isinstance(err, GoogleAuthError | exceptions.Unauthorized):
        return NeedsUserError(
            f"{what}: Google does not accept the credentials",
            code="RPL-6512",
            table=table,
            hint="check `serviceAccountKey`, or the application default credentials of this machine",
        )
    if isinstance(err, exceptions.Forbidden) and reason not in _BUSY:
        return NeedsUserError(
            f"{what}: the service account may not do that{where}",
            code="RPL-6513",
            table=table,
            hint="grant the roles that docs/target-bigquery.md lists",
        )
    if isinstance(err, exceptions.NotFound) and not _ELSEWHERE.search(str(err)):
        return NeedsUserError(
            f"{what}: something it needs is not there{where}",
            code="RPL-6514",
            table=table,
            hint="check that `stagingBucket` exists, and that it, the datasets and `stagingBucketLocation` are in one location",
        )
    if isinstance(err, exceptions.BadRequest | exceptions.NotFound):
        return failed_job({"reason": reason, "message": str(err)}, what, table)
    return RetryableError(
        f"{what} failed: {reason}{where}",
        code="RPL-6515",
        table=table,
        hint="retried by itself; see the job in BigQuery",
    )


def is_passing(error: Mapping[str, Any]) -> bool:
    """Whether a job that ended in this error is worth running again at once."""
    message = str(error.get("message", "")).lower()
    return str(error.get("reason", "")) in _BUSY or any(word in message for word in _CONFLICTS)


def failed_job(error: Mapping[str, Any], what: str, table: str) -> ReplicatorError:
    """A job that ended in an error."""
    reason, message = str(error.get("reason", "")), str(error.get("message", "")).lower()
    if _STREAMING_BUFFER in message:
        return RetryableError(
            f"{what}: another program streams rows into the table, and BigQuery changes none of them for up to 90 minutes",
            code="RPL-6516",
            table=table,
            hint="stop what else writes the table; retried by itself",
        )
    if is_passing(error):
        return RetryableError(f"{what} failed: {reason}", code="RPL-6517", table=table, hint="retried by itself")
    return _lasting(reason, message, what, table) or RetryableError(
        f"{what} failed: {reason}", code="RPL-6515", table=table, hint="retried by itself; see the job in BigQuery"
    )


def _lasting(reason: str, message: str, what: str, table: str) -> ReplicatorError | None:
    """The error for a reason that an operator must fix; None for any other reason."""
    if reason in {"accessDenied", "billingNotEnabled"}:
        return NeedsUserError(
            f"{what}: the service account may not do that",
            code="RPL-6513",
            table=table,
            hint="grant the roles that docs/target-bigquery.md lists",
        )
    if _ELSEWHERE.search(message):
        return NeedsUserError(
            f"{what}: bucket and dataset are not in one location",
            code="RPL-6521",
            table=table,
            hint="use a bucket in the datasets' location, and set `stagingBucketLocation` to it",
        )
    if reason == "notFound":
        return NeedsUserError(
            f"{what}: something it needs is not there",
            code="RPL-6514",
            table=table,
            hint="check that `stagingBucket` exists, and that it, the datasets and `stagingBucketLocation` are in one location",
        )
    if reason in {"invalid", "rowsTooLarge", "responseTooLarge"}:
        return DataError(
            f"{what}: BigQuery does not take the rows",
            code="RPL-6518",
            table=table,
            hint="see the job in BigQuery: a row over 100 MB, a value out of its type's range, or manually altered columns",
        )
    return None


def _reason(err: BaseException) -> str:
    errors = getattr(err, "errors", None) or _errors_of_upload(err)
    return next((str(e["reason"]) for e in errors if isinstance(e, Mapping) and e.get("reason")), "")


def _errors_of_upload(err: BaseException) -> Sequence[Any]:
    """What the answer to an upload lists: google-cloud-storage raises its error without `errors`."""
    response = getattr(err, "response", None)
    try:
        return list(response.json()["error"]["errors"]) if response is not None else ()
    except (AttributeError, KeyError, TypeError, ValueError):  # not Cloud Storage's JSON
        return ()
