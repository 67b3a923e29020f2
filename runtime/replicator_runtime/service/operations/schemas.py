"""What is asked of pipelines, and what is answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

TABLES_AT_MOST = 10_000
TableName = Annotated[str, Field(min_length=1, max_length=1000)]


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class _Answer(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, json_schema_serialization_defaults_required=True
    )


class Tables(_Body):
    """Which tables something is asked for."""

    tables: list[TableName] = Field(
        min_length=1,
        max_length=TABLES_AT_MOST,
        description="As table, schema.table or database.schema.table, quoted as in SQL where a name has dots; or a row's `id`.",
    )
    in_place: bool = Field(
        default=False, description="Of `resync`: copy into the table itself, for targets that cannot do it beside."
    )
    keep_target: bool = Field(default=False, description="Of `drop`: leave the copies at the target as they are.")


class SomeTables(_Body):
    """Some tables, or all."""

    tables: list[TableName] = Field(default_factory=list, max_length=TABLES_AT_MOST, description="All when empty.")


class Asked(_Answer):
    """A request that was stored; the pipeline's run carries it out, or a process of the service when none goes on."""

    request_id: str = Field(description="GET `…/requests/{id}` says what happened to it.")


class RequestItem(_Answer):
    """A request, and what happened to it."""

    request: str = Field(description="Its id.")
    at: str | None = Field(default=None, description="When it was asked.")
    by: str | None = Field(default=None, description="Who asked.")
    command: str | None = None
    tables: list[str] = Field(default_factory=list)
    state: str = Field(description="`waiting`, `done`, `refused`, `failed` or `withdrawn`.")
    ended_at: str | None = None
    ended_by: str | None = None
    text: str = Field(default="", description="What was done, or why not.")


class RequestDetail(RequestItem):
    """The same, with all that is known."""

    arguments: dict[str, Any] = Field(default_factory=dict)
    begun: bool = Field(default=False, description="Whether someone has begun it; then it cannot be withdrawn.")
    lines: list[str] = Field(default_factory=list)
    code: str = ""
    message: str = ""
    hint: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    problem: dict[str, Any] = Field(
        default_factory=dict, description="While it waits: why the last try without a run did not begin it."
    )


class JobItem(_Answer):
    """A command that the service runs for someone."""

    id: str
    pipeline: str
    command: list[str] = Field(description="Its words; they name the pipeline instead of its file.")
    by: str = Field(description="Who asked.")
    state: str = Field(description="`waiting`, `running`, `done`, `failed`, `cancelled` or `lost`.")
    started: datetime = Field(description="When its process was started; while it waits, when it was asked for.")
    ended: datetime | None = None
    exit_code: int | None = None


class JobDetail(JobItem):
    """The same with its result."""

    result: dict[str, Any] | None = Field(
        default=None,
        description="What the command printed with `--json`: schema, data, warnings, error; None before its end.",
    )


class Verify(SomeTables):
    """What is to be compared."""

    repair: bool = Field(default=False, description="Write the rows that differ again as the source has them.")


class ExplainRow(_Body):
    """Which row is to be compared."""

    table: TableName
    key: dict[str, str | int | float | bool] = Field(
        min_length=1, max_length=100, description="The value of each column of the key."
    )


class Maintain(SomeTables):
    """What maintenance is to be done."""

    tasks: list[TableName] = Field(default_factory=list, max_length=100, description="All when empty.")
    all: bool = Field(default=False, description="Also what is not due yet.")


class Rewind(_Body):
    """Back to where; to finish a rewind that was cut off, neither."""

    offset: str = Field(default="", max_length=4000, description="Its name or offset, as the list of offsets has it.")
    time: str = Field(
        default="", max_length=100, description="The newest offset saved at or before this time, ISO 8601."
    )
    plan_only: bool = Field(default=False, description="Only say what it would do.")


class Plan(_Answer):
    """What the next run of a pipeline does."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    plan: str = Field(description="The plan's id, by which it is approved.")
    is_first: bool = Field(description="Whether nothing has run yet.")
    needs_approval: bool
    edits: str = Field(description="`ask` or `apply`: whether the pipeline asks for approvals.")
    steps: list[dict[str, Any]]
    error: dict[str, Any] | None = Field(
        default=None, description="Why the next run will not begin; None when it will."
    )


class PlanRequest(_Body):
    """What is to be planned."""

    config: dict[str, Any] | None = Field(default=None, description="Another pipeline JSON than the stored one.")


class Approval(_Body):
    """Which plan is approved."""

    plan: str = Field(pattern="^[0-9a-f]{12}$", description="Its id.")


class Approved(_Answer):
    """An approval, good for this plan until any plan is applied."""

    plan: str
    request: str
    by: str
    at: str


class SchemaChange(_Answer):
    """A change of structure at the source that waits for a decision."""

    id: str
    database: str
    schema_: str = Field(alias="schema")
    table: str
    name: str
    operation: str
    text: str = Field(description="The change, for people.")
    position: Any = Field(description="Where in the source's log it is.")
    since: str
    only_approved: str = Field(default="", description="Why it cannot be rejected; empty when it can.")


class OffsetItem(_Answer):
    """An offset that was saved."""

    name: str
    saved_at: str | None = None
    sequence_number: int | None = None
    epoch: int | None = None
    offset: str | None = Field(default=None, description="In the source's own notation.")
    problem: str | None = Field(default=None, description="Why its file cannot be read.")


class TableLetters(_Answer):
    """The rows of a table that were put aside; their values are not shown."""

    table: dict[str, str]
    rows: int
    letters: list[dict[str, Any]]
