"""Schema registries, by the REST interface of Confluent's (Apicurio has the same under `/apis/ccompat/v7`)."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from replicator_sdk.errors import NeedsUserError, RetryableError

_TIMEOUT_SECONDS = 15
_HINT = 'check "schemaRegistryUrl" and that the registry is up'


class UnknownSchema(LookupError):  # noqa: N818 - it is about the record, which becomes poison
    """The registry has no schema of this id."""


@dataclass(slots=True)
class SchemaRegistry:
    """Reads schemas by id and keeps them: what an id stands for never changes.

    Attributes:
        url: Where the registry is; may hold `user:password@`.
    """

    url: str
    _schemas: dict[int, dict[str, Any]] = field(default_factory=dict)

    def schema(self, identity: int) -> dict[str, Any]:
        """The registry's answer: `schema`, and optionally `schemaType` and `references`.

        Raises:
            UnknownSchema: When there is none.
            RetryableError: When the registry cannot be reached now.
            NeedsUserError: When it refuses.
        """
        if identity not in self._schemas:
            self._schemas[identity] = self._get(f"/schemas/ids/{identity}")
        return self._schemas[identity]

    def version(self, subject: str, version: int) -> dict[str, Any]:
        """A subject's version, to which a schema refers."""
        return self._get(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}")

    def _get(self, path: str) -> dict[str, Any]:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in {"http", "https"}:
            raise NeedsUserError("schemaRegistryUrl is no http or https address", code="RPL-3932", hint=_HINT)
        address, at, host = parts.netloc.rpartition("@")
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if at:
            headers["Authorization"] = "Basic " + base64.b64encode(urllib.parse.unquote(address).encode()).decode()
        bare = urllib.parse.urlunsplit((parts.scheme, host, parts.path.rstrip("/") + path, "", ""))
        request = urllib.request.Request(bare, headers=headers)  # noqa: S310 - the scheme was looked at
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise _refusal(error.code, host) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RetryableError(
                f"the schema registry at {host} cannot be read ({type(error).__name__})", code="RPL-3931", hint=_HINT
            ) from None
        if not isinstance(found, dict) or "schema" not in found:
            raise NeedsUserError(f"{host} answers, but is no schema registry", code="RPL-3932", hint=_HINT)
        return found


def _refusal(status: int, host: str) -> Exception:
    if status == http.HTTPStatus.NOT_FOUND:
        return UnknownSchema(host)
    if status in {401, 403}:
        return NeedsUserError(
            f"the schema registry at {host} refuses ({status})",
            code="RPL-3932",
            hint="give user and password in schemaRegistryUrl (https://user:password@host), or the right to read",
        )
    return RetryableError(f"the schema registry at {host} answers {status}", code="RPL-3931", hint=_HINT)
