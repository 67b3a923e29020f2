"""Sends requests to a service by the standard library's HTTP client; problems become the errors that commands print.

Redirects are not followed and no proxy is used, so that the token reaches the service that was named and no one else.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from replicator_runtime.cli.report import say
from replicator_runtime.observability.redaction import register_secret
from replicator_sdk import errors
from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from replicator_runtime.cli.remote.place import Place

NOT_REACHED: Final = "RPL-1581"
NO_SERVICE: Final = "RPL-1582"
NO_ADDRESS: Final = "RPL-1583"
WRONG_TOKEN: Final = "RPL-1584"  # noqa: S105 - an error's code
TOKEN: Final = "REPLICATOR_TOKEN"  # noqa: S105 - a variable's name
_TRIES: Final = 3
_BETWEEN_TRIES: Final = 0.5
_SECONDS: Final = 60.0
_LARGEST_BYTES: Final = 64 * 1024 * 1024
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d+){3}|::1")
_NEXT: Final = re.compile(r'<([^>]*)>\s*;\s*rel="next"')
_BY_CLASS: Final = {
    kind.error_class: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ReplicatorError)
}
_BY_EXIT_CODE: Final = {
    kind.exit_code: kind
    for kind in (
        errors.BugError,
        NeedsUserError,
        RetryableError,
        errors.DataError,
        errors.SchemaDriftError,
        errors.HistoryLostError,
        errors.FencedError,
    )
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered.

    Attributes:
        body: Its JSON; None when there is none.
        following: The path of the next part of a list; empty when this is the last one.
        etag: By which a change names what it changes; empty when there is none.
    """

    body: Any
    following: str = ""
    etag: str = ""


class Service:
    """A service; used in one thread.

    Args:
        url: Its address, as `http://127.0.0.1:11015`, with the path below which a proxy serves it.

    Raises:
        NeedsUserError: RPL-1583 for what is no such address; RPL-1584 for what can be no token.
    """

    def __init__(self, url: str) -> None:
        parts = _checked(url)
        self._url = url.rstrip("/")
        self._host, self._prefix, self._port = parts.hostname or "", parts.path.rstrip("/"), parts.port
        self._encrypted = parts.scheme == "https"
        self._token = _token()
        if self._token and not self._encrypted and not _LOOPBACK.fullmatch(self._host):
            say(f"warning: the token is sent to {self._host} without encryption; use an https address")

    def at(self, place: Place) -> Pipeline:
        """A pipeline that it keeps."""
        return Pipeline(self, place)

    def get(self, path: str, **query: Any) -> Any:
        """What is at a path; parameters of the query that are None are left out."""
        return self.send("GET", _with(path, query)).body

    def every(self, path: str, **query: Any) -> Iterator[Any]:
        """All items of a list, part by part."""
        answer = self.send("GET", _with(path, query))
        while True:
            yield from answer.body
            if not answer.following:
                return
            answer = self.send("GET", answer.following.removeprefix(self._prefix))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What is answered to a change that is asked for."""
        return self.send("POST", path, body if body is not None else {}).body

    def delete(self, path: str, **query: Any) -> Any:
        """What is answered to a removal."""
        return self.send("DELETE", _with(path, query)).body

    def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request, again when the connection is lost: a change has a key by which it is made once.

        Raises:
            ReplicatorError: What the service answered, with its code; RPL-1581 when it cannot be reached, RPL-1582 when
                something else answers.
        """
        from ulid import ULID

        sent = {"Accept": "application/json", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        if method != "GET":
            sent["Idempotency-Key"] = str(ULID())
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        for left in reversed(range(_TRIES)):
            try:
                return self._sent(method, self._prefix + path, content, sent)
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    raise self._not_reached(error) from None
                time.sleep(_BETWEEN_TRIES)
        raise AssertionError("unreachable")

    def _sent(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        kind = http.client.HTTPSConnection if self._encrypted else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=_SECONDS)
        try:
            connection.request(method, path, content, dict(headers))
            response = connection.getresponse()
            read = response.read(_LARGEST_BYTES)
        finally:
            connection.close()
        return self._understood(response, read)

    def _understood(self, response: http.client.HTTPResponse, read: bytes) -> Answer:
        """The answer.

        Raises:
            ReplicatorError: What a problem says; RPL-1582 for what no service answers.
        """
        try:
            body = json.loads(read) if read else None
        except ValueError:
            raise self._stranger(response) from None
        if response.status < 300:
            found = _NEXT.search(response.getheader("Link") or "")
            return Answer(body, found[1] if found else "", response.getheader("ETag") or "")
        if not isinstance(body, dict) or not isinstance(body.get("code"), str):
            raise self._stranger(response)
        raise error_of(body, completed_by=body.get("detail", ""))

    def _not_reached(self, error: BaseException) -> RetryableError:
        text = " ".join(str(error).split()) or type(error).__name__
        return RetryableError(
            f"no service can be reached at {self._url}: {text}",
            code=NOT_REACHED,
            hint="start it with `replicator serve`, or correct --server or REPLICATOR_SERVER",
        )

    def _stranger(self, response: http.client.HTTPResponse) -> NeedsUserError:
        return NeedsUserError(
            f"what is at {self._url} answers with HTTP status {response.status}, and not as a service of the replicator does",
            code=NO_SERVICE,
            hint="correct --server or REPLICATOR_SERVER: the address without /v1, with the path below which a proxy serves it",
        )


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline of a service.

    Attributes:
        service: The service.
        place: Its name and namespace.
    """

    service: Service
    place: Place

    @property
    def namespace_path(self) -> str:
        """The path of its namespace."""
        return namespace_path(self.place.namespace)

    @property
    def path(self) -> str:
        """Its path."""
        return f"{self.namespace_path}/pipelines/{quote(self.place.name, safe='')}"

    def get(self, part: str = "", **query: Any) -> Any:
        """What is below its path."""
        return self.service.get(self.path + part, **query)

    def every(self, part: str, **query: Any) -> Iterator[Any]:
        """All items of a list below its path."""
        return self.service.every(self.path + part, **query)

    def post(self, part: str, body: Mapping[str, Any] | None = None) -> Any:
        """What is answered to a change that is asked for."""
        return self.service.post(self.path + part, body)

    def delete(self, part: str = "", **query: Any) -> Any:
        """What is answered to a removal."""
        return self.service.delete(self.path + part, **query)


def namespace_path(namespace: str) -> str:
    """The path of a namespace."""
    return f"/v1/contexts/{quote(namespace, safe='')}"


def error_of(shown: Mapping[str, Any], completed_by: str = "") -> ReplicatorError:
    """The error that a problem, or an envelope's `error`, is.

    Args:
        shown: Its JSON.
        completed_by: The message where that has none.
    """
    kind = _BY_CLASS.get(shown.get("class", "")) or _BY_EXIT_CODE.get(shown.get("exitCode", 3), NeedsUserError)
    kind = errors.NeedsUserError if kind is errors.ConfigError else kind
    parts = "".join(f"; {one['pointer']}: {one['message']}" for one in shown.get("errors", ()))
    return kind(
        f"{shown.get('message', completed_by)}{parts}",
        code=shown.get("code", NO_SERVICE),
        hint=shown.get("hint") or "",
        table=shown.get("table"),
        position=shown.get("position"),
    )


def _with(path: str, query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    return f"{path}?{urlencode(written, doseq=True)}" if given else path


def _checked(url: str) -> Any:
    """The parts of an address.

    Raises:
        NeedsUserError: RPL-1583.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme in {"http", "https"} and parts.hostname and plain and port != 0:
        return parts
    raise NeedsUserError(
        "the address of the service is no address as http://127.0.0.1:11015",
        code=NO_ADDRESS,
        hint="correct --server or REPLICATOR_SERVER; it holds neither a user nor a token: that is in REPLICATOR_TOKEN",
    )


def _token() -> str:
    """The token of this user; empty when there is none.

    Raises:
        NeedsUserError: RPL-1584 for what can be no token; it is not repeated.
    """
    token = os.environ.get(TOKEN, "").strip()
    if token:
        register_secret(token)
    if token and not re.fullmatch(r"[\x21-\x7e]+", token):
        raise NeedsUserError(
            "REPLICATOR_TOKEN holds characters that no token has",
            code=WRONG_TOKEN,
            hint="set it to what `replicator token create` printed, and to nothing else",
        )
    return token
