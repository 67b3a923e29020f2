"""Bodies and answers about a pipeline's state, as seed 001 and CDAP have them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from replicator_runtime.service.drafts.schemas import NAME, Answer


class StateBody(BaseModel):
    """Names a replicator."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    name: Annotated[str, Field(pattern=NAME)]
    offset_base_path: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="The replicator's own, or left out: no other place is looked at."
    )


class ReplicationError(Answer):
    """Why the source or a table fails."""

    message: str
    stack_trace: list[dict[str, Any]] = Field(description="Always empty: `code` and `hint` say what to do.")
    code: str
    hint: str


class TableReplicationState(Answer):
    """The state of a table."""

    database: str
    schema_: str = Field(alias="schema")
    table: str
    state: Literal["SNAPSHOTTING", "REPLICATING", "FAILING"]
    table_state: str = Field(
        description="The state by its own name: PENDING is shown as SNAPSHOTTING in `state`, PAUSED as REPLICATING."
    )
    error: ReplicationError | None


class StateAnswer(Answer):
    """The state of a replicator."""

    source_state: Literal["OK", "FAILING"]
    source_error: ReplicationError | None
    tables: list[TableReplicationState]


class OffsetAndSequence(Answer):
    """Up to where a replicator has saved what it did (CDAP's `OffsetAndSequence`)."""

    offset: dict[str, dict[str, str]] = Field(description="`state`: the source's own fields.")
    sequence_number: int


class Program(Answer):
    """A program of an application."""

    type: str = "Worker"
    app: str
    name: str
    description: str


class ApplicationPlugin(Answer):
    """A plugin that an application uses."""

    id: str
    name: str
    type: str


class Application(Answer):
    """The specification of an application, which is a pipeline here."""

    name: str
    version: str = Field(description="Grows with each change of the config.")
    app_version: str = Field(description="The same, as CDAP has it.")
    namespace: str
    description: str
    config: dict[str, Any]
    configuration: str = Field(description="The config as JSON text, as CDAP has it.")
    programs: list[Program]
    plugins: list[ApplicationPlugin]
