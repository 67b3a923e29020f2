"""Every hook a plugin package may implement; built-in plugins use the same ones as any other package.

A package names a module in the entry-point group `replicator.plugins`; the module holds functions marked `hookimpl`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from replicator_sdk.source import DeltaSource
from replicator_sdk.target import DeltaTarget

PROJECT = "replicator"
ENTRY_POINT_GROUP = "replicator.plugins"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def delta_sources() -> Iterable[type[DeltaSource]]:  # type: ignore[empty-body]
    """Source plugins this package offers; must not import drivers or Spark."""


@hookspec
def delta_targets() -> Iterable[type[DeltaTarget]]:  # type: ignore[empty-body]
    """Target plugins this package offers; must not import cloud clients or Spark."""
