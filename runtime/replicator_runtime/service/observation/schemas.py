"""What is answered about a pipeline's state."""

from __future__ import annotations

import enum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class TableRow(BaseModel):
    """A table of a pipeline: what `state.json` says of it, and what is known beside."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    id: str = Field(description="The name by which a request finds exactly this table: quoted as in SQL.")
    name: str = Field(description="`schema.table`, for people.")
    database: str
    schema_: str = Field(alias="schema")
    table: str
    state: str = Field(description="PENDING, SNAPSHOTTING, REPLICATING, FAILING or PAUSED.")
    rows: int = Field(default=0, description="Rows copied while SNAPSHOTTING, changes applied in this run afterwards.")
    snapshot_percent: float | None = None
    lag_seconds: float | None = None
    rows_per_second: float | None = None
    copied: int | None = Field(default=None, description="Rows that copies have written since the first run.")
    inserts: int | None = Field(
        default=None, description="Changes that the target has got since the first run, without rows of copies."
    )
    updates: int | None = None
    deletes: int | None = None
    error: dict[str, Any] | None = Field(default=None, description="Code, message and hint.")
    rows_put_aside: int = 0
    verified_at: str | None = None
    verify_result: str | None = Field(default=None, description="`equal` or `different`.")


class LogLevel(enum.StrEnum):
    """Lines of this level and above."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class LogLine(BaseModel):
    """A line that a run has logged; further keys are the event's own."""

    model_config = ConfigDict(extra="allow")

    ts: str = Field(default="", description="When, ISO 8601.")
    level: str = ""
    event: str = ""


class Dataset(BaseModel):
    """A table as lineage names it (OpenLineage)."""

    namespace: str
    name: str


class LineageColumn(BaseModel):
    """Where a column of the target comes from."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    source: str = Field(description="The column at the source.")
    source_type: str
    target: str = Field(description="The column at the target.")
    type: str = Field(description="The standard type its values travel in.")


class TableLineage(BaseModel):
    """The lineage of a table."""

    model_config = ConfigDict(populate_by_name=True)

    database: str
    schema_: str = Field(alias="schema")
    table: str
    source: Dataset
    target: Dataset
    columns: list[LineageColumn]
