"""What a body may be: JSON of at most 1 MiB (4 MiB where it has a config), not nested deeply, sent within half a minute."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import anyio

from replicator_runtime.service.access.requests.origins import SAFE_METHODS, header_values
from replicator_runtime.service.access.requests.recording import begin_entry
from replicator_runtime.service.problems import NOT_VALID, ProblemError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from replicator_runtime.service.access.operations import Operation
    from replicator_runtime.service.access.roles import Principal
    from replicator_runtime.service.settings import Limits

BODY_TOO_LARGE = "RPL-1547"
OTHER_TYPE = "RPL-1548"
TOO_SLOW = "RPL-1549"
_DEEPEST = 64
_WITH_CONFIG = frozenset(
    {"putDraft", "createPipeline", "putPipeline", "planPipeline", "validatePipeline", "assessPipeline", "assessTable"}
)
"""Operations whose body has a pipeline's config, which names each table of a source."""
# It takes what follows a quote also where no other quote comes, so that each byte is looked at once.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_LARGE = 65_536
_NO_NUMBER = re.compile(rb"NaN|Infinity")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_OTHER_THAN_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Bodies:
    """Middleware that reads a request's body whole before an operation sees it, or refuses it.

    So no operation waits for a slow client, and `scope["state"]["body"]` is there for those that follow.

    Args:
        app: What follows.
        limits: How large, and how slow.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._application = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        Raises:
            ProblemError: 413 RPL-1547, 415 RPL-1548, 408 RPL-1549, 400 RPL-1500, 503 RPL-1552.
        """
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        await begin_entry(scope)
        body = await self._read(scope, receive)
        if body:
            _check_type(scope)
            if len(body) > _LARGE:
                await anyio.to_thread.run_sync(check_json, body)
            else:
                check_json(body)
        scope["state"]["body"] = body
        await self._application(scope, _Replay(body, receive), send)

    def _most(self, scope: Scope) -> int:
        """The size of the largest body that this one may send here."""
        operation: Operation | None = scope["state"].get("operation")
        principal: Principal | None = scope["state"].get("principal")
        if operation is None or operation.role is None or operation.operation_id not in _WITH_CONFIG:
            return self._limits.body_bytes
        found = operation.pattern.match(scope["path"])
        namespace = found.groupdict().get("namespace") if found else None
        may = principal is not None and principal.may(operation.role, namespace)
        return self._limits.config_bytes if may else self._limits.body_bytes

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        most = self._most(scope)
        for length in header_values(scope, b"content-length"):
            if length.isdigit() and int(length[:20]) > most:
                raise _too_large(most)
        if scope["method"] in SAFE_METHODS and not _has_body(scope):
            return b""
        body = bytearray()
        try:
            with anyio.fail_after(self._limits.body_seconds):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _too_large(most)
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise ProblemError(
                408,
                TOO_SLOW,
                f"the body has not come within {self._limits.body_seconds:g} s",
                hint="send it again",
                headers={"Connection": "close"},
            ) from None


class _Replay:
    """The body that was read, as if it came now; then what the server says.

    Args:
        body: That was read.
        receive: The server's.
    """

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._receive = receive

    async def __call__(self) -> Message:
        """The next message."""
        message, self._message = self._message, None
        return message if message is not None else await self._receive()


def check_json(body: bytes) -> None:
    """Do nothing when a body is text that parsers and databases take.

    Whether it is JSON is found by whoever parses it.

    Raises:
        ProblemError: 400 RPL-1500 when it is nested deeper than 64 levels, or has a character or number that JSON has not.
    """
    around = _STRING.sub(b'""', body)
    brackets = around.translate(None, _OTHER_THAN_BRACKETS)
    for _ in range(_DEEPEST):
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    if brackets:
        raise ProblemError(400, NOT_VALID, "the body is no JSON, or is nested too deeply", hint="send JSON")
    if _NO_NUMBER.search(around):
        raise ProblemError(400, NOT_VALID, "the body has a number that JSON has not", hint="send JSON")
    if b"\\u" in body and not _is_text(body):
        raise ProblemError(
            400, NOT_VALID, "the body has a text that is no Unicode", hint="leave NUL and surrogates out"
        )


def _is_text(body: bytes) -> bool:
    """Whether the texts of a JSON document can be stored: no NUL, no half of a pair of surrogates."""
    try:
        text = json.dumps(json.loads(body), ensure_ascii=False)
        text.encode()
    except ValueError:
        # Not JSON at all is found by whoever parses it; UnicodeEncodeError is a ValueError, too.
        return _is_no_json(body)
    return _NUL.search(text) is None


def _is_no_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return True
    return False


def _check_type(scope: Scope) -> None:
    types = header_values(scope, b"content-type")
    kind, _, parameters = (types[0] if len(types) == 1 else "").lower().partition(";")
    charset = parameters.strip().replace('"', "")
    if kind.strip() != "application/json" or charset not in {"", "charset=utf-8"}:
        raise ProblemError(
            415, OTHER_TYPE, "the body is not sent as JSON", hint="send `Content-Type: application/json`"
        )
    if header_values(scope, b"content-encoding"):
        raise ProblemError(415, OTHER_TYPE, "the body is compressed", hint="leave `Content-Encoding` out")


def _has_body(scope: Scope) -> bool:
    return bool(header_values(scope, b"transfer-encoding")) or header_values(scope, b"content-length") not in (
        [],
        ["0"],
    )


def _too_large(most: int) -> ProblemError:
    return ProblemError(
        413,
        BODY_TOO_LARGE,
        f"the body is larger than {most} bytes",
        hint="send less at once",
        headers={"Connection": "close"},
    )
