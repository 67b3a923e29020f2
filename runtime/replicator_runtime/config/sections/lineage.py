"""The key `lineage`: where the lineage of tables is published."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from replicator_runtime.config.sections.settings import Settings


class LineageConfig(Settings):
    """Where the lineage of the tables is published."""

    transport: dict[str, Any] = Field(
        description="The transport, as OpenLineage's client takes it, such as `type` and `url`; macros are allowed in every value."
    )
    every_minutes: float = Field(
        default=15.0,
        gt=0,
        description="How often it is said how many changes were applied; what is new of tables is said at once.",
    )
