"""Reads schemas over HTTP: Confluent's REST interface (Apicurio's under `/apis/ccompat/v7`), and Apicurio's own."""

from __future__ import annotations

import base64
import http.client
import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from replicator_sdk.errors import NeedsUserError, RetryableError

_TIMEOUT_SECONDS = 15
_HINT = 'check "schemaRegistryUrl" and that the registry is up'
_APICURIO = re.compile(r"/apis/registry/v([23])$")
_COMPATIBLE = re.compile(r"/apis/ccompat/v\d+$")
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json, */*"
_DEEPEST = 32


class UnknownSchema(LookupError):  # noqa: N818 - it describes the record, which becomes poison
    """The registry has no schema with this id."""


@dataclass(frozen=True, slots=True)
class SchemaId:
    """The id of a schema in a record.

    Attributes:
        kind: `id` for a number before the data; `guid` for Confluent's GUID; `globalId` and `contentId` for Apicurio's
            ids in a header.
        value: The number, or the GUID's text.
    """

    kind: str
    value: str

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as it is registered.

    Attributes:
        text: Its text.
        language: `AVRO`, `PROTOBUF` or `JSON`; empty if the registry does not return it.
        references: The schemas it refers to, each with the name used in its text.
    """

    text: str
    language: str = ""
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


@dataclass(slots=True)
class SchemaRegistry:
    """Reads schemas by id and caches them: the schema of an id never changes.

    Attributes:
        url: The registry's address; may contain `user:password@`. With Apicurio's `/apis/registry/v2` the numbers before
            the data are global ids, with `/apis/registry/v3` content ids: the defaults of its converters.
    """

    url: str
    _schemas: dict[SchemaId, RegisteredSchema] = field(default_factory=dict)

    def schema(self, identity: SchemaId) -> RegisteredSchema:
        """The schema, with all schemas it refers to.

        Raises:
            UnknownSchema: When the registry has no such schema.
            RetryableError: When the registry cannot be reached now.
            NeedsUserError: When the registry refuses the request.
        """
        if identity not in self._schemas:
            self._schemas[identity] = self._read(identity)
        return self._schemas[identity]

    def _read(self, identity: SchemaId) -> RegisteredSchema:
        path = urlsplit(self.url).path.rstrip("/")
        native = _APICURIO.search(path)
        if identity.kind == "guid":
            return self._confluent(f"{path}/schemas/guids/{quote(identity.value, safe='')}")
        if native is not None:
            usual = "globalIds" if native.group(1) == "2" else "contentIds"
            kind = usual if identity.kind == "id" else identity.kind + "s"
            return self._apicurio(path, f"{path}/ids/{kind}/{identity.value}")
        if identity.kind != "id":
            # Apicurio's headers contain ids that only its own interface knows; it has a path next to the compatible one.
            path = _COMPATIBLE.sub("/apis/registry/v2", path)
            return self._apicurio(path, f"{path}/ids/{identity.kind}s/{identity.value}")
        return self._confluent(f"{path}/schemas/ids/{identity.value}")

    def _confluent(self, path: str, depth: int = 0) -> RegisteredSchema:
        found = self._json(path)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise _no_registry(self.url)
        root = urlsplit(self.url).path.rstrip("/")
        references = tuple(
            (
                str(each["name"]),
                self._confluent(
                    f"{root}/subjects/{quote(each['subject'], safe='')}/versions/{each['version']}", _deeper(depth)
                ),
            )
            for each in found.get("references") or ()
        )
        return RegisteredSchema(found["schema"], str(found.get("schemaType") or "AVRO"), references)

    def _apicurio(self, root: str, path: str, references: str = "", depth: int = 0) -> RegisteredSchema:
        text = self._get(path).decode()
        try:
            found = self._json(references or f"{path}/references")
        except UnknownSchema:  # registries of before 2.3 have no references
            found = []
        if not isinstance(found, list):
            raise _no_registry(self.url)
        return RegisteredSchema(text, "", tuple(self._apicurio_reference(root, each, _deeper(depth)) for each in found))

    def _apicurio_reference(self, root: str, each: dict[str, Any], depth: int) -> tuple[str, RegisteredSchema]:
        group, artifact = (quote(each.get(name) or "default", safe="") for name in ("groupId", "artifactId"))
        version = f"{root}/groups/{group}/artifacts/{artifact}/versions/{each['version']}"
        content = version if root.endswith("/v2") else f"{version}/content"
        return str(each["name"]), self._apicurio(root, content, f"{version}/references", depth)

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self._get(path))
        except ValueError:
            raise _no_registry(self.url) from None

    def _get(self, path: str) -> bytes:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"}:
            raise NeedsUserError("schemaRegistryUrl is not an http or https address", code="RPL-3932", hint=_HINT)
        account, at, host = parts.netloc.rpartition("@")
        headers = {"Accept": _ACCEPT}
        if at:
            headers["Authorization"] = "Basic " + base64.b64encode(unquote(account).encode()).decode()
        bare = urlunsplit((parts.scheme, host, path, "", ""))
        request = urllib.request.Request(bare, headers=headers)  # noqa: S310 - the scheme is checked above
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error.code, host) from None
        except (OSError, http.client.HTTPException) as error:
            raise RetryableError(
                f"the schema registry at {host} cannot be read ({type(error).__name__})", code="RPL-3931", hint=_HINT
            ) from None


def _deeper(depth: int) -> int:
    if depth >= _DEEPEST:
        raise ValueError("has a schema that refers to itself")
    return depth + 1


def _no_registry(url: str) -> NeedsUserError:
    host = urlsplit(url).netloc.rpartition("@")[2]
    return NeedsUserError(f"{host} answers, but is not a schema registry", code="RPL-3932", hint=_HINT)


def _refusal(status: int, host: str) -> Exception:
    if status == http.HTTPStatus.NOT_FOUND:
        return UnknownSchema(host)
    if status in {401, 403}:
        return NeedsUserError(
            f"the schema registry at {host} refuses ({status})",
            code="RPL-3932",
            hint="set user and password in schemaRegistryUrl (https://user:password@host), or grant the right to read",
        )
    return RetryableError(f"the schema registry at {host} answers {status}", code="RPL-3931", hint=_HINT)
