"""The OpenAPI document of the service."""

from __future__ import annotations

from pathlib import Path

from replicator_runtime.service.application import create_application
from replicator_runtime.service.openapi import text_of
from replicator_runtime.service.settings import ServiceSettings


def open_api() -> str:
    """The document; nothing is started."""
    return text_of(create_application(ServiceSettings("sqlite://", "", Path("unused"))))
