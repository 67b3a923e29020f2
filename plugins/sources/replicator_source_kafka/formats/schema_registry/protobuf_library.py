"""Imports the optional libraries that Protobuf needs."""

from __future__ import annotations

import importlib
from typing import Any

from replicator_sdk.authoring.driver_errors import required_library
from replicator_sdk.errors import NeedsUserError


def library(name: str) -> Any:
    """A module of `protobuf`, `ptars` or `grpcio-tools`.

    Raises:
        NeedsUserError: When it is not installed.
    """
    with required_library(
        NeedsUserError(
            f"the format debezium-protobuf needs {name.partition('.')[0]}, which is not installed",
            code="RPL-3972",
            hint="pip install 'replicator[kafka-protobuf]'",
        )
    ):
        return importlib.import_module(name)
