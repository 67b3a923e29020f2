"""Bodies and answers of the drafts' operations: seed 001's keys, CDAP's where it has others, and ours beside them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
_NO_CONTROL = r"^[^\x00-\x1f\x7f]*$"
Config = Annotated[
    dict[str, Any], Field(description="A pipeline's config (docs/configuration.md); secrets as macros only.")
]
TableName = Annotated[str, Field(min_length=1, max_length=1024)]
OptionalName = Annotated[str, Field(max_length=1024)]


class Answer(BaseModel):
    """Root of what is answered; keys are camelCase."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class DraftBody(BaseModel):
    """A draft as it is written; a draft that was read may be sent back, its other keys are not looked at."""

    config: Config
    label: str = Field(default="", max_length=255, pattern=_NO_CONTROL, description="For people.")


class DraftAnswer(Answer):
    """A draft."""

    name: str = Field(description="Of the pipeline that is being written.")
    label: str = Field(description="For people.")
    created: datetime = Field(description="When it was written first.")
    updated: datetime = Field(description="When it was written last.")
    config: Config


class TableBody(BaseModel):
    """Names a table of the source (CDAP's `DBTable`)."""

    database: OptionalName = ""
    schema_: Annotated[OptionalName, Field(alias="schema")] = ""
    table: TableName


class PipelineBody(BaseModel):
    """A config that is not a draft: as it is, or under the key `config`."""

    model_config = ConfigDict(extra="allow")


class TableAndConfigBody(BaseModel):
    """CDAP's `TableAssessmentRequest`."""

    db_table: TableBody = Field(alias="dBTable")
    delta_config: Annotated[Config, Field(alias="deltaConfig")]


class ListedTable(Answer):
    """A table of the source."""

    database: str
    schema_: str = Field(alias="schema", description="Empty where the source has none.")
    name: str = Field(description="The table's name, as the seed has it.")
    table: str = Field(description="The same, as CDAP has it.")
    num_columns: int
    estimated_rows: int | None = Field(description="About; null when the source does not say.")
    estimated_bytes: int | None = Field(description="About; null when the source does not say.")
    replicated: bool = Field(description="Whether the config's `tables` select it.")


class TableList(Answer):
    """The tables of a source."""

    tables: list[ListedTable]


class DescribedColumn(Answer):
    """A column of a table of the source."""

    name: str
    type: str = Field(description="The source's own type.")
    nullable: bool
    standard_type: str = Field(description="The type in which its values are replicated.")


class DescribedTable(Answer):
    """A table of the source with its columns."""

    database: str
    schema_: str = Field(alias="schema")
    table: str
    num_columns: int
    primary_key: list[str]
    columns: list[DescribedColumn]


class AssessmentProblem(Answer):
    """Something that an assessment has found."""

    name: str = Field(description="Short and stable.")
    description: str
    suggestion: str
    impact: str
    severity: Literal["ERROR", "WARNING", "INFO"] = Field(
        description="ERROR keeps the pipeline, or a table, from running."
    )
    fix: str = Field(description="The statement that fixes it, ready to paste; empty where there is none.")
    code: str | None
    place: Literal["source", "target", "table"] = Field(description="What it is about.")
    database: str | None
    schema_: str | None = Field(alias="schema")
    table: str | None
    column: str | None


class Problems(Answer):
    """What an assessment has found, by kind."""

    feature_problems: list[AssessmentProblem] = Field(description="What source or target lack.")
    connectivity_problems: list[AssessmentProblem] = Field(description="What cannot be reached or read.")
    transformation_issues: list[AssessmentProblem] = Field(default=[], description="CDAP's; always empty.")
    notes: list[AssessmentProblem] = Field(description="Facts to know (severity INFO).")


class AssessedTable(Answer):
    """How the columns of a table arrive, in numbers."""

    database: str
    schema_: str = Field(alias="schema")
    name: str
    table: str
    num_columns: int
    columns_not_supported: int = Field(description="As the seed has it.")
    columns_partially_supported: int = Field(description="As the seed has it.")
    num_columns_not_supported: int = Field(description="As CDAP has it.")
    num_columns_partially_supported: int = Field(description="As CDAP has it.")


class PipelineAssessmentAnswer(Problems):
    """The assessment of a whole pipeline."""

    tables: list[AssessedTable]


class SuggestionDetails(Answer):
    """What is said of a column."""

    message: str


class Suggestion(Answer):
    """What is said of a column that does not arrive as it is."""

    details: SuggestionDetails
    message: str = Field(description="The same, where CDAP has it.")
    transforms: list[dict[str, Any]] = []


class AssessedColumn(Answer):
    """How a column arrives."""

    source_name: str
    target_name: str
    source_type: str
    target_type: str
    support: Literal["YES", "NO", "PARTIAL"]
    transforms: list[dict[str, Any]] = []
    suggestion: Suggestion | None


class TableAssessmentAnswer(Problems):
    """The assessment of one table."""

    columns: list[AssessedColumn]


class ConfigProblem(Answer):
    """What is wrong with one place of a config."""

    pointer: str = Field(description="JSON Pointer into the config; empty for the whole.")
    message: str = Field(description="What is wrong there; never the value itself.")
    hint: str
    code: str


class Validation(Answer):
    """Whether a config is valid."""

    valid: bool
    errors: list[ConfigProblem]
