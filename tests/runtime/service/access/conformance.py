"""Whether an answer is one that the OpenAPI document describes: its status, its media type, its headers, its body."""

from __future__ import annotations

from typing import Any

from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.runtime.service.services import ADDRESS

CHECKS = (
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
UNAVAILABLE = {503, 504}
"""Statuses from 500 on that are no fault of the service."""


def request_of(case: Any) -> dict[str, Any]:
    """The arguments of httpx' `request` for a request of schemathesis."""
    sent = case.as_transport_kwargs(base_url=ADDRESS)
    sent = {name: sent[name] for name in ("method", "url", "headers", "params", "json", "data") if name in sent}
    if isinstance(sent.get("data"), bytes):
        sent["content"] = sent.pop("data")
    return sent
